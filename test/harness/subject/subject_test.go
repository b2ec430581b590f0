// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

const (
	small = `
name: small
binary: bin/manager
manifests: config
args: ["--probe=127.0.0.1:{probe}", "--metrics=:{metrics}", "--webhook={webhook}", "--namespace={namespace}"]
env: {WHERE: "{namespace}", ALWAYS: "yes"}
contract:
  lease: {name: leader}
  kinds:
  - {group: example.com, resource: things, ready: Ready, children: [{resource: configmaps, controlled: true}]}
  limits: {quiet: 2s}
scenarios: [scenarios]
`
	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: small-system}
spec:
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      serviceAccountName: operator
      containers: [{name: manager, image: small}]
`
	definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	life = `
name: life
invariants: [end-state]
steps:
- apply: {apiVersion: example.com/v1, kind: Thing, metadata: {name: "{thing}", namespace: default}}
- {name: made, quiesce: {for: 2s}}
`
)

// home is a folder with a subject in it; files replace or add to its own.
func home(t *testing.T, files map[string]string) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	all := map[string]string{
		"subject.yaml":              small,
		"bin/manager":               "#!/bin/sh\n",
		"config/kustomization.yaml": "resources: [deployment.yaml, definition.yaml]",
		"config/deployment.yaml":    deployment,
		"config/definition.yaml":    definition,
		"scenarios/life.yaml":       life,
	}
	maps.Copy(all, files)
	for name, text := range all {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o700)).To(Succeed())
	}
	return filepath.Join(dir, "subject.yaml")
}

func TestLoad_DefaultsComeFromTheManifests(t *testing.T) {
	g := NewWithT(t)
	path := home(t, nil)
	dir := filepath.Dir(path)
	s, err := Load(t.Context(), path, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Name).To(Equal("small"))
	g.Expect(s.Contract.Users).To(Equal([]string{"system:serviceaccount:small-system:operator"}))
	g.Expect(s.Contract.Lease).To(Equal(history.Key{Resource: history.Leases, Namespace: "small-system", Name: "leader"}))
	g.Expect(s.Contract.Limits.Quiet.Duration.String()).To(Equal("2s"))
	g.Expect(s.Contract.Kinds).To(Equal([]invariant.Kind{{
		Resource: history.Resource{Group: "example.com", Resource: "things"}, Ready: "Ready",
		Children: []invariant.Child{{Resource: history.Resource{Resource: "configmaps"}, Controlled: true}},
	}}))
	g.Expect(s.Plane.AuditGroups).To(Equal([]string{"", "example.com"}))
	g.Expect(s.Plane.Definitions).To(HaveLen(1))
	g.Expect(s.Plane.Definitions[0].Spec.Names.Kind).To(Equal("Thing"))
	g.Expect(s.Operator.Binary).To(Equal(filepath.Join(dir, "bin", "manager")))
	g.Expect(s.Operator.Manifests).To(Equal(filepath.Join(dir, "config")))
	g.Expect(s.Operator.Args(env.ReplicaPorts{Probe: 1, Metrics: 2, Webhook: 3})).To(Equal(
		[]string{"--probe=127.0.0.1:1", "--metrics=:2", "--webhook=3", "--namespace=small-system"}))
	g.Expect(s.Operator.Env).To(Equal([]string{"ALWAYS=yes", "WHERE=small-system"}))
	g.Expect(s.Operator.Isolated).To(BeTrue())
	g.Expect(s.Scenarios).To(HaveLen(1))
	g.Expect(s.Scenarios[0].Name).To(Equal("life"))
}

func TestLoad_FileOverridesTheManifests(t *testing.T) {
	g := NewWithT(t)
	text := strings.ReplaceAll(small, "lease: {name: leader}",
		"lease: {name: leader, namespace: elsewhere}\n  users: [somebody]") +
		"replicas: 3\nwatched: [{group: apps, resource: deployments}]\nexcept: [{invariant: truthful-readiness, reason: it has no probe}]\ncrds: [others]\n" +
		"releaseLease: true\nprevious: bin/old\nworkingDir: image\nnode: {jobs: {\"work:1\": runs}, controllers: [garbage-collector-controller]}\nexternal: {s3: {}}\n"
	path := home(t, map[string]string{"subject.yaml": text,
		"others/other.yaml": strings.ReplaceAll(strings.ReplaceAll(definition, "things", "others"), "Thing", "Other")})
	here, err := os.Getwd()
	g.Expect(err).NotTo(HaveOccurred())
	program, err := filepath.Rel(here, os.Args[0])
	g.Expect(err).NotTo(HaveOccurred())
	s, err := Load(t.Context(), path, program)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Contract.Users).To(Equal([]string{"somebody"}))
	g.Expect(s.Contract.Lease.Namespace).To(Equal("elsewhere"))
	g.Expect(s.Replicas).To(Equal(3))
	g.Expect(s.ReleaseLease).To(BeTrue())
	g.Expect(s.Node.Jobs).To(Equal(map[string]env.JobEnd{"work:1": env.JobRuns}))
	g.Expect(s.Plane.Controllers).To(Equal([]string{"garbage-collector-controller"}))
	g.Expect(s.External).NotTo(BeNil())
	g.Expect(s.Previous).To(Equal(filepath.Join(filepath.Dir(path), "bin", "old")))
	g.Expect(s.Plane.AuditGroups).To(Equal([]string{"", "apps", "example.com"}))
	g.Expect(s.Plane.Definitions).To(HaveLen(2))
	g.Expect(s.Plane.Definitions[1].Spec.Names.Kind).To(Equal("Other"))
	g.Expect(s.Contract.Watched).To(Equal([]history.Resource{{Group: "apps", Resource: "deployments"}}))
	g.Expect(s.Contract.Except).To(Equal([]invariant.Exception{
		{Invariant: "truthful-readiness", Reason: "it has no probe"}}))
	g.Expect(s.Operator.Binary).To(Equal(os.Args[0]), "in place of the file's")
	g.Expect(s.Operator.WorkingDir).To(Equal(filepath.Join(filepath.Dir(path), "image")))
}

func TestLoadBuildsTheBinary(t *testing.T) {
	g := NewWithT(t)
	path := home(t, map[string]string{
		"subject.yaml": strings.Replace(small, "bin/manager", "bin/built", 1) +
			"build: {dir: source, package: ., flags: [-tags=yes]}\n",
		"source/go.mod": "module example.com/small\n", "source/main.go": "//go:build yes\n\npackage main\n\nfunc main() {}\n",
	})
	_, err := Load(t.Context(), path, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Join(filepath.Dir(path), "bin", "built")).To(BeARegularFile())
}

// An operator that uses what runs on this machine shares its network, unless its file differs.
func TestIsolates(t *testing.T) {
	for name, tc := range map[string]struct {
		file File
		want bool
	}{
		"by itself":                        {File{}, true},
		"not if the file denies it":        {File{Isolated: new(false)}, false},
		"with a node":                      {File{Node: &NodeSpec{}}, true},
		"not with an external system":      {File{External: &ExternalSpec{}}, false},
		"with one if the file requires it": {File{External: &ExternalSpec{}, Isolated: new(true)}, true},
	} {
		if got := tc.file.isolates(); got != tc.want {
			t.Errorf("%s: isolates returned %t", name, got)
		}
	}
}

// Each message names the necessary change and its place.
func TestLoad_ReportsErrors(t *testing.T) {
	with := func(old, replacement string) map[string]string {
		return map[string]string{"subject.yaml": strings.Replace(small, old, replacement, 1)}
	}
	plus := func(line string) map[string]string { return map[string]string{"subject.yaml": small + line + "\n"} }
	for name, tc := range map[string]struct {
		files map[string]string
		says  string
	}{
		"UnknownField":  {with("manifests:", "manifest: x\nmanifests:"), `unknown field "manifest"`},
		"FieldTwice":    {plus("name: big"), `"name" already set`},
		"NoDuration":    {with("quiet: 2s", "quiet: two"), `invalid duration "two"`},
		"Empty":         {map[string]string{"subject.yaml": ""}, "contract.lease.name: name the Lease"},
		"EmptyTellsAll": {map[string]string{"subject.yaml": ""}, "scenarios: name files or folders"},
		"NoResource": {with("resource: configmaps", "annotation: x"),
			"contract.kinds[0].children[0].resource: is required"},
		"TwoMarks": {with("resource: configmaps", "resource: configmaps, label: x, annotation: y"),
			"contract.kinds[0].children[0].annotation and label: name one of them"},
		"TooFew": {plus("replicas: -1"), "replicas: -1 cannot run"},
		"WatchedTwice": {with("contract:", "contract:\n  watched: [{resource: secrets}]"),
			"contract.watched: list the resources in watched"},
		"ExceptTwice": {plus("except: [{invariant: preconditions, reason: a}, {invariant: preconditions, reason: b}]"),
			"except[1]: there is another one for preconditions"},
		"ExceptNoReason": {plus("except: [{invariant: preconditions}]"), "except[0].reason: say why preconditions may be broken"},
		"ExceptBlank": {plus("except: [{invariant: preconditions, reason: \" \"}]"),
			"except[0].reason: say why preconditions may be broken"},
		"ExceptUnknown": {plus("except: [{invariant: no-such-invariant, reason: a}]"),
			`except[0].invariant: no invariant is called "no-such-invariant"`},
		"ExceptElsewhere": {with("contract:", "contract:\n  except: [{invariant: preconditions, reason: a}]"),
			"contract.except: list the exceptions in except"},
		"NoSystem":  {plus("external: {}"), "external: say which system; there is s3"},
		"NoJobEnd":  {plus("node: {jobs: {\"work:1\": ends}}"), `node.jobs[work:1]: "ends" is neither`},
		"NoPackage": {plus("build: {dir: x}"), "build.package: name the Go package"},
		"UnknownPort": {with("{probe}", "{health}"),
			`nothing is known as {health} here; known are ["namespace" "probe" "metrics" "webhook"]`},
		"PortInEnv": {with(`WHERE: "{namespace}"`, `WHERE: "{probe}"`),
			`nothing is known as {probe} here; known are ["namespace"]`},
		"NoBinary": {with("bin/manager", "bin/other"),
			"bin/other: no such file or directory; build it, or say in build how"},
		"NoProgram":    {with("bin/manager", "config"), "is no program"},
		"DoesNotBuild": {plus("build: {package: ./none}"), "building the subject small: running go"},
		"NoManifests": {with("manifests: config", "manifests: scenarios"),
			"life.yaml: decoding the document at line 1: it has no apiVersion and kind"},
		"NoDeployment": {map[string]string{"config/kustomization.yaml": "resources: [definition.yaml]"},
			"there is no Deployment"},
		"RemoteManifests": {with("manifests: config", "manifests: https://example.org/install.yaml"),
			"manifests: https://example.org/install.yaml is remote"},
		"RemoteCRDs": {plus("crds: [\"https://example.org/crds.yaml\"]"),
			"crds: https://example.org/crds.yaml is remote"},
		"NoCRDs":      {plus("crds: [none]"), "crds: stat"},
		"NoValues":    {plus("helm: {values: none.yaml}"), "helm.values: open"},
		"WrongValues": {plus("helm: {values: [1]}"), "helm.values: name a file, or write the values as a map"},
		"UnknownHelm": {plus("helm: {name: x}"), `unknown field "name"`},
		"MisspelledKind": {with("resource: things", "resource: thing"),
			`thing.example.com: Kubernetes has no such group, and the manifests and crds define ["things.example.com"] only`},
		"NoScenario":    {with("[scenarios]", "[bin]"), "bin has no *.yaml"},
		"WrongScenario": {map[string]string{"scenarios/life.yaml": "name: life\n"}, "life.yaml: checking scenario"},
		"ScenarioTwice": {map[string]string{"scenarios/other.yaml": life},
			`other.yaml: there is another scenario called "life"`},
		"NoSuchInvariant": {map[string]string{"scenarios/life.yaml": strings.Replace(life, "end-state", "no-such-invariant", 1)},
			`no invariant is called "no-such-invariant"; there are ["single-lifecycle"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Load(t.Context(), home(t, tc.files), "")
			g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
		})
	}
	_, err := Load(t.Context(), filepath.Join(t.TempDir(), "none.yaml"), "")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("reading the subject: open")))
}

func TestLoad_NamesKindsOfScenariosWithoutADefinition(t *testing.T) {
	g := NewWithT(t)
	files := map[string]string{
		"subject.yaml":              small,
		"config/kustomization.yaml": "resources: [deployment.yaml, definition.yaml, monitor.yaml]",
		"config/monitor.yaml":       "apiVersion: example.net/v1\nkind: Monitor\nmetadata: {name: m, namespace: small-system}\n",
		"scenarios/life.yaml": life + "- {delete: {apiVersion: example.org/v1, kind: Claim, name: \"{thing}\"}}\n" +
			"- {name: end, quiesce: {for: 2s, until: [{object: {apiVersion: example.org/v2, kind: Claim, name: \"{thing}\"}, gone: true}]}}\n",
	}
	_, err := Load(t.Context(), home(t, files), "")
	g.Expect(err).To(MatchError(ContainSubstring(
		"crds: neither the manifests nor crds define Claim.example.org (scenario life): name files or folders with their "+
			"CustomResourceDefinitions in crds, or with --crds of prove init")), "a Monitor of the manifests is not installed")

	other := func(group, kind string) string {
		return strings.NewReplacer("example.com", group, "Thing", kind, "things", strings.ToLower(kind)+"s").
			Replace(definition)
	}
	files["subject.yaml"] += "crds: [others, claim.yaml]\n"
	files["others/monitor.yaml"] = other("example.net", "Monitor") + "---" + other("example.net", "Alert")
	files["claim.yaml"] = other("example.org", "Claim")
	_, err = Load(t.Context(), home(t, files), "")
	g.Expect(err).NotTo(HaveOccurred())
}

func TestLoad_Chart(t *testing.T) {
	for name, values := range map[string]string{"inline": "{level: 7}", "file": "values.yaml"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := home(t, map[string]string{
				"subject.yaml": strings.Replace(small, "config",
					"chart\nhelm: {namespace: mine, values: "+values+"}", 1),
				"values.yaml":                "level: 7\n",
				"chart/Chart.yaml":           "apiVersion: v2\nname: small\nversion: 0.1.0\n",
				"chart/crds/definition.yaml": definition,
				"chart/templates/all.yaml": strings.NewReplacer("namespace: small-system",
					"labels: {level: \"{{ .Values.level }}\"}",
					"name: manager", "name: \"{{ .Release.Name }}\"").Replace(deployment),
				"chart/templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, annotations: {helm.sh/hook: post-install}}\n",
			})
			s, err := Load(t.Context(), path, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Contract.Users).To(Equal([]string{"system:serviceaccount:mine:operator"}))
			g.Expect(s.Contract.Lease.Namespace).To(Equal("mine"))
			g.Expect(s.Plane.Definitions).To(HaveLen(1))
			g.Expect(s.Notes).To(ConsistOf("the chart's hooks are not run: ConfigMap late (post-install)",
				HavePrefix("Deployment small has no HTTP probe: ")))
			objects, _, err := s.Operator.Render(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			d, err := env.TheDeployment(objects, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(d.Name).To(Equal("small"), "the release's name is the subject's")
			g.Expect(d.Labels).To(Equal(map[string]string{"level": "7"}))
		})
	}
}

func TestLoad_OfSeveralDeployments(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := map[string]string{
		"config/kustomization.yaml": "resources: [deployment.yaml, webhook.yaml, definition.yaml]",
		"config/webhook.yaml":       strings.ReplaceAll(deployment, "manager", "webhook"),
	}
	files["subject.yaml"] = small + "deployment: manager\n"
	s, err := Load(t.Context(), home(t, files), "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Operator.Deployment).To(Equal("manager"))
	g.Expect(s.Notes).To(ContainElement("the Deployment webhook does not run: the subject is manager"))
	files["subject.yaml"] = small
	_, err = Load(t.Context(), home(t, files), "")
	g.Expect(err).To(MatchError(ContainSubstring("deployment: there are 2 Deployments, manager, webhook, and none of them is chosen")))
}

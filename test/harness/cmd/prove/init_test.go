// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/run"
)

// project is a folder with what init needs; the program prints one flag and fails.
func project(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"manager":                           "#!/bin/sh\necho '  -health-addr string' >&2; exit 2\n",
		"config/default/kustomization.yaml": "resources: []\n",
		"config/samples/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
		"config/samples/thing.yaml":         "# a sample\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n",
		"config/samples/README.md":          "no sample",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o700)).To(Succeed())
	}
	return dir
}

// Each message names the necessary change.
func TestParseInit_Refuses(t *testing.T) {
	dir := project(t)
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "subject.yaml"), nil, 0o600)).To(Succeed())
	manifests, binary := filepath.Join(dir, "config", "default"), "--binary="+filepath.Join(dir, "manager")
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"NoSubject": {[]string{"--subject=", manifests, binary}, `--subject="" is not a directory; name a directory for subject.yaml`},
		"File":      {[]string{"--subject=test/prove/subject.yaml", manifests, binary}, "is not a directory"},
		"NoManifests": {[]string{"--subject=" + dir, binary},
			"accepts 1 arg(s), received 0"},
		"NoBinary": {[]string{"--subject=" + dir, manifests}, "build the operator and set --binary to the program"},
		"NotBuilt": {[]string{"--subject=" + dir, manifests, "--binary=" + filepath.Join(dir, "none")},
			"is not an executable program; build the operator first"},
		"Folder":          {[]string{"--subject=" + dir, manifests, "--binary=" + dir}, "is not an executable program"},
		"NoSuchManifests": {[]string{"--subject=" + dir, filepath.Join(dir, "confg"), binary}, "confg: no such file"},
		"NoSuchSamples":   {[]string{"--subject=" + dir, manifests, binary, "--samples=" + dir + "/smples"}, "smples: no such file"},
		"There": {[]string{"--subject=" + dir, manifests, binary},
			"already exists; choose another directory, or overwrite the file with --overwrite"},
		"BelowAFile": {[]string{"--subject=" + filepath.Join(dir, "manager"), manifests, binary},
			"cannot be written"},
		"BelowAFileThatIsThere": {[]string{"--subject=" + filepath.Join(dir, "manager", "a", "b"), manifests, binary},
			"not a directory"},
		"UnknownFlag": {[]string{"--subjects=" + dir}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(newInit, tc.args...)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)))
		})
	}
	_, err := parse(newInit, "--subject="+dir, manifests, binary, "--overwrite")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestParseInit_FindsSamplesBesideTheManifests(t *testing.T) {
	g := NewWithT(t)
	dir := project(t)
	o, err := parse(newInit, "--subject="+filepath.Join(dir, "new"),
		filepath.Join(dir, "config", "default"), "--binary="+filepath.Join(dir, "manager"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.samples).To(Equal(filepath.Join(dir, "config", "samples")))
	samples, err := readSamples(o.samples)
	g.Expect(err).NotTo(HaveOccurred())
	var kinds []string
	for _, s := range samples {
		for _, object := range s.Objects {
			kinds = append(kinds, filepath.Base(s.File)+" "+object.GetKind())
		}
	}
	g.Expect(kinds).To(Equal([]string{"thing.yaml Secret", "thing.yaml Thing"}))
	help, err := helpOf(t.Context(), o.binary)
	g.Expect(err).NotTo(HaveOccurred(), "many programs fail after they have printed their flags")
	g.Expect(learn.Flags(help)).To(Equal([]string{"health-addr"}))
	g.Expect(os.WriteFile(o.binary, []byte("#!/bin/sh\n[ $1 = manager ] && echo '  --metrics-addr string'\n"), 0o700)).To(Succeed())
	help, err = helpOf(t.Context(), o.binary, subcommands([]string{"manager", "--zone=a", "b"})...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(learn.Flags(help)).To(Equal([]string{"metrics-addr"}))
}

func TestDefinitions(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "crds.yaml")
	g.Expect(os.WriteFile(file, []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"+
		"metadata: {name: others.example.com}\n"), 0o600)).To(Succeed())
	own := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1",
		"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.example.com"}}}
	for name, tc := range map[string]struct {
		manifests []*unstructured.Unstructured
		kinds     []string
		want      []string
	}{
		"Manifests": {[]*unstructured.Unstructured{own}, nil, []string{"things.example.com"}},
		"CRDs":      {nil, nil, []string{"others.example.com"}},
		"Kind":      {[]*unstructured.Unstructured{own}, []string{"Other"}, []string{"things.example.com", "others.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := initOptions{crds: []string{file}, kinds: tc.kinds}
			all, err := o.definitions(tc.manifests)
			g.Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, d := range all {
				names = append(names, d.Name)
			}
			g.Expect(names).To(Equal(tc.want))
		})
	}
}

func TestReadSamples_NamesTheWrongFile(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "wrong.yaml"), []byte("a: b: c"), 0o600)).To(Succeed())
	_, err := readSamples(dir)
	g.Expect(err).To(MatchError(ContainSubstring("wrong.yaml")))
	_, err = readSamples(filepath.Join(dir, "none"))
	g.Expect(err).To(MatchError(ContainSubstring("no such file")))
}

// backups drafts a scenario of the archiver's kind.
func backups(t *testing.T) []learn.DraftKind {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "archiver", "config", "crd", "bases",
		"archive.example.com_backups.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	d := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(yaml.Unmarshal(text, d)).To(Succeed())
	kinds, err := learn.Kinds([]*apiextensionsv1.CustomResourceDefinition{d}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return kinds
}

func TestWrite_LeavesNoScenarioOfBefore(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	d := &learn.Draft{Name: "small", Kinds: backups(t)}
	files, err := write(dir, d)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(Equal([]string{filepath.Join(dir, "subject.yaml"),
		filepath.Join(dir, "scenarios", "backup-life.yaml")}))
	g.Expect(os.Remove(files[0])).To(Succeed())
	g.Expect(checkAbsent(dir, d)).To(MatchError(ContainSubstring("backup-life.yaml already exists")))
	g.Expect(checkAbsent(t.TempDir(), d)).To(Succeed())
	g.Expect(os.WriteFile(files[1], []byte("mine"), 0o600)).To(Succeed())
	g.Expect(write(dir, d)).To(Equal(files))
	g.Expect(os.ReadFile(files[1])).NotTo(BeEquivalentTo("mine"))

	// What an earlier run described and this one cannot would still be run.
	d.Kinds[0].Problem = "the operator wrote nothing for the sample"
	others := filepath.Join(dir, "scenarios", "mine.yaml")
	g.Expect(os.WriteFile(others, nil, 0o600)).To(Succeed())
	g.Expect(write(dir, d)).To(Equal(files[:1]))
	g.Expect(files[1]).NotTo(BeAnExistingFile())
	g.Expect(others).To(BeAnExistingFile())
}

// endingReplica is a replica whose process ends a number of times. Each appends a line to its log.
type endingReplica struct {
	t              *testing.T
	log            string
	ends, restarts int
}

func (p *endingReplica) Running() bool { return p.ends == 0 }

func (p *endingReplica) Restart() error {
	p.ends--
	p.restarts++
	p.write(fmt.Sprintf("12:00:0%d no certificate yet\n", p.restarts))
	return nil
}

func (p *endingReplica) write(text string) {
	file, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	NewWithT(p.t).Expect(err).NotTo(HaveOccurred())
}

func TestRefusal(t *testing.T) {
	g := NewWithT(t)
	refused := &run.RefusedError{Rejection: history.Rejection{Step: "step 1 create", Object: "Thing ns/{thing}",
		Message: "spec.size: Invalid value: 0"}}
	g.Expect(refusal(fmt.Errorf("doing step 1: %w", refused))).To(MatchError(
		"the API server refused the sample: step 1 create of Thing ns/{thing} was rejected: spec.size: Invalid value: 0"))
	g.Expect(refusal(nil)).To(Succeed())
	other := errors.New("no control plane")
	g.Expect(refusal(other)).To(MatchError(other))
}

func TestChosenKinds(t *testing.T) {
	g := NewWithT(t)
	of := func(kind string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind}}}
	}
	all := []*apiextensionsv1.CustomResourceDefinition{of("Backup"), of("Restore")}
	g.Expect(chosenKinds(all, nil)).To(Equal(all))
	g.Expect(chosenKinds(all, []string{"Restore"})).To(Equal(all[1:]))
	_, err := chosenKinds(all, []string{"Restore", "Backups"})
	g.Expect(err).To(MatchError("--kind=Backups: the manifests define Backup, Restore"))
}

func TestMakesWorkloads(t *testing.T) {
	g := NewWithT(t)
	role := func(text string) []*unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte("kind: ClusterRole\nrules: ["+text+"]"), &o.Object)).To(Succeed())
		return []*unstructured.Unstructured{o}
	}
	g.Expect(makesWorkloads(role("{apiGroups: [apps], resources: [statefulsets], verbs: [get, create]}"))).To(BeTrue())
	g.Expect(makesWorkloads(role("{apiGroups: ['*'], resources: ['*'], verbs: ['*']}"))).To(BeTrue())
	g.Expect(makesWorkloads(role("{apiGroups: [''], resources: [pods], verbs: [get, list, watch]}"))).To(BeFalse())
	g.Expect(makesWorkloads(role("{apiGroups: [''], resources: [secrets], verbs: [create]}"))).To(BeFalse())
}

func TestGrowthProblem(t *testing.T) {
	g := NewWithT(t)
	rest := func(converged bool, unmet ...string) *history.History {
		return &history.History{Checkpoints: []history.Checkpoint{{Name: "made", Converged: true},
			{Name: "grown", Converged: converged, Unmet: unmet}}}
	}
	g.Expect(growthProblem(rest(true), nil)).To(BeEmpty())
	g.Expect(growthProblem(rest(false, "Thing ns/a to have Ready=True"), nil)).To(
		Equal(`at "grown" it is not ready: Thing ns/a to have Ready=True`))
	invalid := rest(true)
	invalid.Requests = []history.Request{{User: "op", Verb: "create", Code: 422, Effect: history.Refused}}
	g.Expect(growthProblem(invalid, []string{"another"})).To(BeEmpty())
	g.Expect(growthProblem(invalid, []string{"op"})).To(HavePrefix("the operator cannot use it: create of"))
}

func TestGrowthTrial_EndsWithTheGrownObject(t *testing.T) {
	g := NewWithT(t)
	l := &learner{draft: &learn.Draft{Kinds: backups(t)}}
	g.Expect(l.draft.Kinds[0].Grow(learn.GrowAll)).To(BeTrue())
	trial, err := l.growthTrial(&l.draft.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trial.Validate()).To(Succeed())
	g.Expect(trial.Steps).To(HaveEach(HaveField("Refused", BeEmpty())))
	last := trial.Steps[len(trial.Steps)-1]
	g.Expect(last.Name).To(Equal("grown"))
	g.Expect(last.Quiesce.Within.Duration).To(Equal(growthTimeout))
}

func TestTimedWriter(t *testing.T) {
	g := NewWithT(t)
	now := time.Time{}
	var output strings.Builder
	w := newTimedWriter(&output, func() time.Time { return now })
	fmt.Fprint(w, "building")
	now = now.Add(100 * time.Second)
	fmt.Fprint(w, " etcd\n")
	fmt.Fprint(w, "")
	fmt.Fprint(w, "it ended:\nlog\n")
	g.Expect(output.String()).To(Equal("    0s building etcd\n 1m40s it ended:\nlog\n"))
}

// The operator is probed at the port of its metrics, and has an init container. Namespaces of samples
// stay as they are: those that the installation has not are created.
func TestPropose(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	program, manifests := filepath.Join(dir, "manager"), filepath.Join(dir, "install.yaml")
	g.Expect(os.WriteFile(program, []byte("#!/bin/sh\necho '  -metrics-addr string (default \":8080\")'\n"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(manifests, []byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: small-system}
spec:
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      initContainers: [{name: packages, image: small}]
      containers:
      - {name: manager, image: small, readinessProbe: {httpGet: {path: /metrics, port: http}},
         ports: [{name: http, containerPort: 8080}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
    properties: {spec: {type: object, properties: {from: {type: string}}}}}}}]
`), 0o600)).To(Succeed())
	samples := filepath.Join(dir, "samples.yaml")
	g.Expect(os.WriteFile(samples, []byte(`
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: small-system}}
---
{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: prod}, spec: {from: prod}}
`), 0o600)).To(Succeed())
	o, err := parse(newInit, "--subject="+filepath.Join(dir, "new"), manifests, "--binary="+program, "--args=--zone=a",
		"--args=--verbose", "--samples="+samples)
	g.Expect(err).NotTo(HaveOccurred())
	var output strings.Builder
	d, err := propose(t.Context(), o, &output)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(output.String()).To(ContainSubstring("the init containers of Deployment manager do not run: packages"))
	g.Expect(string(d.Subject())).To(ContainSubstring(
		"args:\n- \"--metrics-addr=127.0.0.1:{probe}\"\n- --zone=a\n- --verbose\n"))
	text, err := d.Scenario(&d.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(And(
		MatchRegexp(`(?s)kind: Namespace.*name: '\{namespace\}'.*namespace: small-system.*namespace: '\{namespace\}'`),
		ContainSubstring("from: '{namespace}'"), Not(ContainSubstring("prod"))))
}

// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// files writes files into a new folder.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	g, dir := NewWithT(t), t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, filepath.FromSlash(name))
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o700)).To(Succeed())
	}
	return dir
}

func TestReadSamples(t *testing.T) {
	g := NewWithT(t)
	dir := files(t, map[string]string{
		"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
		"thing.yaml":         "# a sample\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\n---\nkind: Thing\nmetadata: {name: a, namespace: b}\n",
		"README.md":          "no sample",
	})
	samples, err := readSamples(dir, nil)
	g.Expect(err).NotTo(HaveOccurred())
	var kinds []string
	for _, file := range samples {
		for _, o := range file {
			kinds = append(kinds, o.GetKind()+" "+o.GetName())
		}
	}
	g.Expect(kinds).To(Equal([]string{"Secret key", "Thing a", "Namespace b"}))
	_, err = readSamples(files(t, map[string]string{"wrong.yaml": "a: b: c"}), nil)
	g.Expect(err).To(MatchError(ContainSubstring("wrong.yaml")))
}

func TestHelpOf(t *testing.T) {
	g := NewWithT(t)
	dir := files(t, map[string]string{"fails": "#!/bin/sh\necho '  -health-addr string' >&2; exit 2\n",
		"below": "#!/bin/sh\n[ $1 = manager ] && echo '  --metrics-addr string'\n"})
	help, err := helpOf(t.Context(), filepath.Join(dir, "fails"))
	g.Expect(err).NotTo(HaveOccurred(), "many programs fail after they have printed their flags")
	g.Expect(Flags(help)).To(Equal([]string{"health-addr"}))
	help, err = helpOf(t.Context(), filepath.Join(dir, "below"), subcommands([]string{"manager", "--zone=a", "b"})...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(Flags(help)).To(Equal([]string{"metrics-addr"}))
}

func TestDefinitions(t *testing.T) {
	g := NewWithT(t)
	const crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s}, spec: {names: {kind: %s}}}"
	own := object(t, strings.NewReplacer("name: %s", "name: things", "kind: %s", "kind: Thing").Replace(crd))
	other := filepath.Join(files(t, map[string]string{
		"crds.yaml": strings.NewReplacer("name: %s", "name: others", "kind: %s", "kind: Other").Replace(crd)}), "crds.yaml")
	for name, tc := range map[string]struct {
		manifests []*unstructured.Unstructured
		kinds     []string
		want      string
	}{
		"Manifests": {[]*unstructured.Unstructured{own}, nil, "things"},
		"CRDs":      {nil, nil, "others"},
		"Kind":      {[]*unstructured.Unstructured{own}, []string{"Other"}, "others"},
	} {
		all, err := (&Options{CRDs: []string{other}, Kinds: tc.kinds}).definitions(tc.manifests)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(all).To(HaveExactElements(HaveField("Name", tc.want)), name)
	}
	_, err := (&Options{CRDs: []string{other}, Kinds: []string{"Others"}}).definitions([]*unstructured.Unstructured{own})
	g.Expect(err).To(MatchError("--kind=Others: the manifests define Thing, Other"))
}

func TestWrite_LeavesNoEarlierScenario(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	d := &Draft{Name: "small", Kinds: kindsOf(t, nil, backups(t))}
	written, err := d.write(dir, d.Scenarios)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(written).To(Equal([]string{filepath.Join(dir, "subject.yaml"), filepath.Join(dir, "scenarios", "backup-life.yaml")}))
	// A scenario that an earlier run wrote and that this one cannot write would still be run.
	d.Kinds[0].Problem = "the operator wrote nothing for the sample"
	own := filepath.Join(dir, "scenarios", "own.yaml")
	g.Expect(os.WriteFile(own, nil, 0o600)).To(Succeed())
	g.Expect(d.write(dir, d.Scenarios)).To(Equal(written[:1]))
	g.Expect(written[1]).NotTo(BeAnExistingFile())
	g.Expect(own).To(BeAnExistingFile())
	g.Expect(os.ReadFile(written[0])).To(ContainSubstring("There is no scenario of it: the operator wrote nothing for the sample."))
}

// The operator is probed at the port of its metrics, and has an init container. Namespaces of samples
// stay as they are: those that the installation has not are created.
func TestPropose(t *testing.T) {
	g := NewWithT(t)
	dir := files(t, map[string]string{
		"manager": "#!/bin/sh\necho '  -metrics-addr string (default \":8080\")'\n",
		"install.yaml": `
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
`,
		"samples.yaml": `
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: small-system}}
---
{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: prod}, spec: {from: prod}}
`})
	var output strings.Builder
	d, err := propose(t.Context(), Options{Dir: filepath.Join(dir, "new"), Manifests: filepath.Join(dir, "install.yaml"),
		Binary: filepath.Join(dir, "manager"), Args: []string{"--zone=a", "--verbose"}, Samples: filepath.Join(dir, "samples.yaml")}, &output)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(output.String()).To(ContainSubstring("the init containers of Deployment manager do not run: packages"))
	g.Expect(string(d.Subject())).To(ContainSubstring(
		"args:\n- \"--metrics-addr=127.0.0.1:{probe}\"\n- --zone=a\n- --verbose\n"))
	text, err := d.Scenario(&d.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(And(
		MatchRegexp(`(?s)namespace: small-system.*kind: Namespace.*name: '\{namespace\}'.*namespace: '\{namespace\}'`),
		ContainSubstring("from: '{namespace}'"), Not(ContainSubstring("prod"))))
}

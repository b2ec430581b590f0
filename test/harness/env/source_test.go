// SPDX-License-Identifier: Apache-2.0

package env

import (
	"archive/tar"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rendered returns the rendered manifests of a subject: kind and name of each object, with its namespace.
func rendered(t *testing.T, s InstallOptions) (lines []string, objects []*unstructured.Unstructured, notes []string) {
	t.Helper()
	objects, notes, err := s.Render(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		lines = append(lines, strings.TrimPrefix(o.GetNamespace()+"/", "/")+o.GetKind()+" "+o.GetName())
	}
	return lines, objects, notes
}

func TestSubjectRender_YAML(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lines, objects, notes := rendered(t, InstallOptions{Manifests: filepath.Join("testdata", "plain")})
	g.Expect(lines).To(Equal([]string{
		"Namespace plain-system",
		"plain-system/Deployment manager", "default/ConfigMap settings",
		"plain-system/ServiceAccount one", "plain-system/ServiceAccount two", "ClusterRole plain",
	}))
	g.Expect(notes).To(ConsistOf(HavePrefix("Deployment manager has no HTTP probe: ")))
	replicas, found, err := unstructured.NestedInt64(objects[1].Object, "spec", "replicas")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replicas).To(BeEquivalentTo(2), "whole numbers stay whole: %v", found)
	g.Expect(objects[2].Object["data"]).To(HaveKeyWithValue("text", "a\n --- no separator\n"))

	lines, _, _ = rendered(t, InstallOptions{Manifests: filepath.Join("testdata", "plain", "20-list.yml")})
	g.Expect(lines).To(Equal([]string{"Namespace plain-system", "plain-system/ServiceAccount one",
		"plain-system/ServiceAccount two"}))
}

func TestSubjectRender_Chart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("testdata", "chart")
	for name, path := range map[string]string{"folder": folder, "package": packaged(t, folder)} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lines, objects, notes := rendered(t, InstallOptions{Manifests: path, Chart: Chart{
				Release: "mine", Namespace: "mine-system", Values: []byte("level: 7"),
			}})
			g.Expect(lines[:3]).To(ConsistOf("Namespace mine-system", "Namespace other-system",
				"CustomResourceDefinition things.chart.example.org"))
			g.Expect(lines[3:]).To(ConsistOf("mine-system/ServiceAccount operator", "mine-system/Deployment mine-manager",
				"other-system/Role leader", "ClusterRole small", "mine-system/Thing default"))
			g.Expect(notes).To(ConsistOf("the chart's hooks are not run: Job migrate (pre-upgrade)",
				HavePrefix("Deployment mine-manager has no HTTP probe: ")))
			deployment, err := TheDeployment(objects, "")
			g.Expect(err).NotTo(HaveOccurred())
			assets, err := FindAssets()
			g.Expect(err).NotTo(HaveOccurred())
			version, err := serverVersion(t.Context(), assets)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(deployment.Spec.Template.Spec.Containers[0].Args).
				To(Equal([]string{"--level=7", "--kubernetes=" + version}))
		})
	}
}

// packaged is a chart as `helm package` makes it.
func packaged(t *testing.T, folder string) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.CopyFS(filepath.Join(dir, "small"), os.DirFS(folder))).To(Succeed())
	file, err := os.Create(filepath.Join(t.TempDir(), "small-0.1.0.tgz"))
	g.Expect(err).NotTo(HaveOccurred())
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	g.Expect(archive.AddFS(os.DirFS(dir))).To(Succeed())
	g.Expect(archive.Close()).To(Succeed())
	g.Expect(compressed.Close()).To(Succeed())
	g.Expect(file.Close()).To(Succeed())
	return file.Name()
}

func TestSubjectRender_ReportsErrors(t *testing.T) {
	t.Parallel()
	const advice = "is remote, and a run must give the same tomorrow: download it, and name the local path"
	for name, tc := range map[string]struct {
		files map[string]string
		path  string
		says  []string
	}{
		"URL":        {nil, "https://example.org/install.yaml", []string{"https://example.org/install.yaml " + advice}},
		"Git":        {nil, "git@example.org:team/operator.git", []string{advice}},
		"Repository": {nil, "github.com/team/operator//config?ref=v1", []string{advice}},
		"OCI":        {nil, "oci://registry.example.org/charts/small", []string{advice}},
		"Nothing":    {nil, "none", []string{"none: no such file"}},
		"EmptyFolder": {map[string]string{"notes.txt": ""}, "",
			[]string{"has no kustomization.yaml, no Chart.yaml and no *.yaml"}},
		"NoManifest": {map[string]string{"notes.txt": ""}, "notes.txt",
			[]string{"notes.txt is no YAML file and no packaged chart"}},
		"NoYAML": {map[string]string{"a.yaml": "kind: A\napiVersion: v1\n---\nkind: B\n  apiVersion: v1\n"}, "a.yaml",
			[]string{"a.yaml: decoding the document at line 3", "yaml: line 5: "}},
		"NoObject": {map[string]string{"a.yaml": "a: b\n"}, "",
			[]string{"a.yaml: decoding the document at line 1: it has no apiVersion and kind"}},
		"BrokenList": {map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [7]\n"}, "",
			[]string{"a.yaml: decoding the list at line 1"}},
		"RemoteBase": {map[string]string{"kustomization.yaml": "resources:\n- github.com/team/operator/config?ref=v1\n"},
			"", []string{"kustomization.yaml: github.com/team/operator/config?ref=v1 " + advice}},
		"RemoteBelow": {map[string]string{"kustomization.yaml": "resources: [below]",
			"below/kustomization.yml": "components: [\"https://example.org/x\"]"}, "",
			[]string{"below/kustomization.yml: https://example.org/x " + advice}},
		"MissingBase": {map[string]string{"kustomization.yaml": "resources: [typo]"}, "", []string{"typo"}},
		"NamelessChart": {map[string]string{"Chart.yaml": "apiVersion: v2\nversion: 0.1.0\n"}, "",
			[]string{"chart.metadata.name is required"}},
		"Dependency": {map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\ndependencies: [{name: other, version: 1.0.0, repository: \"https://example.org\"}]\n"}, "",
			[]string{"missing in charts/ directory: other", "use the packaged chart (.tgz)"}},
		"NoPackage": {map[string]string{"a.tgz": "no archive"}, "a.tgz", []string{"a.tgz"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dir := t.TempDir()
			for _, file := range slices.Sorted(maps.Keys(tc.files)) {
				path := filepath.Join(dir, file)
				g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
				g.Expect(os.WriteFile(path, []byte(tc.files[file]), 0o600)).To(Succeed())
			}
			path := tc.path
			if CheckLocal(path) == nil {
				path = filepath.Join(dir, path)
			}
			_, _, err := InstallOptions{Manifests: path, Chart: Chart{Release: "a", Namespace: "a"}}.Render(t.Context())
			for _, says := range tc.says {
				g.Expect(err).To(MatchError(ContainSubstring(says)))
			}
		})
	}
}

// Helm refuses a missing dependency before it reads whether it is enabled.
func TestSubjectRender_DisabledDependency(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ defaults, given, message string }{
		"ByDefault":     {defaults: "other: {enabled: false}"},
		"ByUser":        {defaults: "other: {enabled: true}", given: "other: {enabled: false}"},
		"BySecondPath":  {defaults: "global: {other: false}"},
		"EnabledByUser": {defaults: "other: {enabled: false}", given: "other: {enabled: true}", message: "missing in charts/ directory: other"},
		"NoValue":       {message: "missing in charts/ directory: other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, dir := NewWithT(t), t.TempDir()
			g.Expect(os.Mkdir(filepath.Join(dir, "templates"), 0o750)).To(Succeed())
			for file, text := range map[string]string{
				"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\ndependencies:\n" +
					"- {name: other, version: 1.0.0, repository: \"https://example.org\", condition: \"other.enabled,global.other\"}\n",
				"values.yaml":         tc.defaults,
				"templates/some.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: some}\n",
			} {
				g.Expect(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)).To(Succeed())
			}
			objs, _, err := InstallOptions{Manifests: dir,
				Chart: Chart{Release: "a", Namespace: "a", Values: []byte(tc.given)}}.Render(t.Context())
			if tc.message != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.message)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(objs).To(HaveLen(2), "the Namespace, and the chart's object")
		})
	}
}

func TestSubjectRender_NeedsHelm(t *testing.T) {
	t.Setenv(helmVariable, filepath.Join(t.TempDir(), "none"))
	_, _, err := InstallOptions{Manifests: filepath.Join("testdata", "chart")}.Render(t.Context())
	NewWithT(t).Expect(err).To(MatchError(ErrNoHelm))
}

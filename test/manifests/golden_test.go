// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

// maxText is the longest value of a ConfigMap that a golden file shows. It has the hash of a longer
// one, such as the generated JSON of the dashboard.
const maxText = 4 << 10

// overlay is a kustomization that users apply by itself. Its golden file has the objects that
// differ from those of base, and names those that it lacks.
type overlay struct{ dir, base string }

var overlays = []overlay{
	{dir: "default"},
	{dir: "certmanager", base: "default"},
	{dir: "e2e", base: "default"},
	{dir: "fencing/off", base: "default"},
	{dir: "prometheus"},
	{dir: "grafana"},
	{dir: "network-policy"},
	{dir: "samples"},
	{dir: "quota"},
}

// Every change of a rendered object must change a golden file.
func TestGolden(t *testing.T) {
	for _, o := range overlays {
		t.Run(o.dir, func(t *testing.T) {
			var got bytes.Buffer
			documents := split(t, renderedOverlay(t, o.dir))
			base := map[string]string{}
			if o.base != "" {
				base = split(t, renderedOverlay(t, o.base))
				fmt.Fprintf(&got, "# What config/%s has in another form than config/%s, or does not have.\n", o.dir, o.base)
			}
			for _, name := range slices.Sorted(maps.Keys(base)) {
				if _, found := documents[name]; !found {
					fmt.Fprintf(&got, "# without %s\n", name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(documents)) {
				if documents[name] != base[name] {
					got.WriteString("---\n" + documents[name])
				}
			}
			compareGolden(t, filepath.Join("golden", strings.ReplaceAll(o.dir, "/", "-")+".yaml"), got.Bytes())
		})
	}
}

// split returns the objects of rendered as YAML, by kind, namespace and name.
func split(t *testing.T, rendered []byte) map[string]string {
	t.Helper()
	documents := map[string]string{}
	for _, document := range separate(t, rendered) {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatal(err)
		}
		if data, ok := o.Object["data"].(map[string]any); ok {
			for key, value := range data {
				if text, ok := value.(string); ok && len(text) > maxText {
					data[key] = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
				}
			}
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Join(slices.DeleteFunc([]string{o.GetKind(), o.GetNamespace(), o.GetName()},
			func(part string) bool { return part == "" }), " ")
		if _, twice := documents[name]; twice {
			t.Errorf("%s is rendered twice", name)
		}
		documents[name] = string(text)
	}
	return documents
}

// A file that no overlay reads would be shipped untested.
func TestEveryFileOfConfigIsRendered(t *testing.T) {
	root := filepath.Join("..", "..", "config")
	reached := map[string]bool{}
	for _, o := range overlays {
		reach(t, filepath.Join(root, o.dir), reached)
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if path == filepath.Join(root, "chart") {
			return filepath.SkipDir // Helm renders it: see chart_test.go
		}
		if err == nil && !entry.IsDir() && !reached[path] {
			t.Errorf("%s is in no overlay that has a golden file", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reach adds the files of the kustomization in dir and of its resources.
func reach(t *testing.T, dir string, reached map[string]bool) {
	t.Helper()
	file := filepath.Join(dir, "kustomization.yaml")
	if reached[file] {
		return
	}
	reached[file] = true
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Resources, Components, Configurations []string
		Patches                               []struct{ Path string }
		ConfigMapGenerator                    []struct{ Files []string }
	}
	if err := yaml.Unmarshal(content, &k); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
	parts := slices.Concat(k.Resources, k.Components, k.Configurations)
	for _, patch := range k.Patches {
		parts = append(parts, patch.Path)
	}
	for _, generator := range k.ConfigMapGenerator {
		parts = append(parts, generator.Files...)
	}
	for _, part := range parts {
		if part == "" { // a patch in line
			continue
		}
		path := filepath.Join(dir, part)
		switch info, err := os.Stat(path); {
		case err != nil:
			t.Fatal(err)
		case info.IsDir():
			reach(t, path, reached)
		default:
			reached[path] = true
		}
	}
}

// compareGolden compares rendered objects with a file of testdata.
func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("the rendered objects differ from %s (-want +got); if that is intended, run\n"+
			"  go test ./test/manifests -update\n%s", golden, diff)
	}
}

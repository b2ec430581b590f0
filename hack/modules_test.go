// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// The control plane and the tools have versions of their own, and those of go.work have one set. Where they
// need the same versions, a new machine compiles client-go once for all of them, which takes minutes.
func TestKubernetesIsCompiledOnce(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		"k8s.io/client-go/kubernetes")
	list.Dir, list.Stderr = "..", os.Stderr
	paths, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	versions := required(t, "../go.mod")
	for _, other := range []string{"certmanager/go.mod", "controlplane/go.mod", "gitops/go.mod", "tools/go.mod"} {
		theirs, same := required(t, other), 0
		for _, path := range slices.Compact(slices.Sorted(strings.FieldsSeq(string(paths)))) {
			switch version, found := theirs[path]; {
			case !found:
			case version == versions[path]:
				same++
			default:
				t.Errorf("%s of go.mod is %s, and that of %s is %s: go get the newer one in both", path, versions[path],
					other, version)
			}
		}
		if same == 0 {
			t.Errorf("%s has no module that client-go needs", other)
		}
	}
}

// required returns the versions that a go.mod requires, by module.
func required(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}

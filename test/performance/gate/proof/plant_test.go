// Package proof proves the gate and the golden files: each regression in testdata/planted is
// stopped, and a checkout is not stopped by itself. `make gate PROOF=20` runs it.
package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/tree"
)

// root is the repository.
var root = filepath.Join("..", "..", "..", "..")

// plant is a change that the gate has to stop. It is a file: a patch, and before it in
// YAML what it is about.
type plant struct {
	name, path string

	// Bug says in one sentence what is wrong.
	Bug string `json:"bug"`
	// Check is the check of the gate that stops it, and Worse the IDs that have to be worse.
	// No others may be worse than those that begin as Within has it.
	Check  string   `json:"check"`
	Worse  []string `json:"worse"`
	Within []string `json:"within"`
	// Tests are arguments of go test for the test of make test that stops it, where no check of
	// the gate does.
	Tests []string `json:"tests"`
	// Prints is what the test or the gate prints.
	Prints []string `json:"prints"`
}

// plants reads all of them, by name.
func plants(t *testing.T) []plant {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "planted", "*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	var all []plant
	for _, file := range files {
		p, err := read(file)
		if err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		all = append(all, p)
	}
	return all
}

func read(file string) (p plant, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	if err := tree.Header(text, &p); err != nil {
		return p, err
	}
	gated, tested := p.Check != "" && len(p.Worse) > 0 && len(p.Within) > 0, len(p.Tests) > 0 && len(p.Prints) > 0
	if p.Bug == "" || gated == tested {
		return p, errors.New("it needs a bug, and either check, worse and within, or tests and prints")
	}
	p.name = strings.TrimSuffix(filepath.Base(file), ".patch")
	p.path, err = filepath.Abs(file)
	return p, err
}

// into changes a tree.
func (p plant) into(t *testing.T, dir string, flags ...string) {
	t.Helper()
	if err := tree.Patch(t.Context(), dir, p.path, flags...); err != nil {
		t.Fatal(fmt.Errorf("planting a regression, whose patch has to be made anew where what it changes has changed: %w",
			err))
	}
}

// make test checks this, so that make gate PROOF=20 does not fail an hour later. A plant that does not
// compile fails any test, and so proves nothing.
func TestPlantedRegressionsApplyAndCompile(t *testing.T) {
	g, copied := NewWithT(t), filepath.Join(t.TempDir(), "copy")
	g.Expect(tree.Copy(root, copied)).To(Succeed())
	all := plants(t)
	var names []string
	for _, p := range all {
		p.into(t, copied)
		p.compile(t, copied)
		p.into(t, copied, "--reverse")
		names = append(names, p.name)
	}
	g.Expect(names).To(ConsistOf("extra-write", "live-read", "quadratic-loop", "flaky-spec", "removed-field",
		"crd-default", "tenant-verb", "pod-guard", "allocation", "extra-informer"))
}

var changedGo = regexp.MustCompile(`(?m)^\+\+\+ b/(.*/)(.*\.go)$`)

// compile compiles the packages that the patch changes, tests too. The changed files are an overlay
// of the repository, so that what the packages import need not be compiled for the copy.
func (p plant) compile(t *testing.T, copied string) {
	t.Helper()
	g := NewWithT(t)
	repository, err := filepath.Abs(root)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(p.path)
	g.Expect(err).NotTo(HaveOccurred())
	overlay, packages := map[string]string{}, []string{}
	for _, name := range changedGo.FindAllStringSubmatch(string(text), -1) {
		overlay[filepath.Join(repository, name[1], name[2])] = filepath.Join(copied, name[1], name[2])
		packages = append(packages, "./"+name[1])
	}
	if len(packages) == 0 {
		return
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	encoded, err := json.Marshal(map[string]any{"Replace": overlay})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(file, encoded, 0o600)).To(Succeed())
	command := exec.CommandContext(t.Context(), "go", append([]string{"vet", "-overlay", file}, packages...)...)
	command.Dir = repository
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("compiling %s: %v\n%s", p.name, err, output)
	}
}

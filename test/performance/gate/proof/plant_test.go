package proof

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/internal/tree"
)

// root is the repository.
var root = filepath.Join("..", "..", "..", "..")

// plant is a change that the gate has to stop. It is a file: a patch, and before it in
// YAML what it is about.
type plant struct {
	name, path string

	// Bug says in one sentence what is wrong.
	Bug string `json:"bug"`
	// Checks are those of the gate that can see it.
	Checks []string `json:"checks"`
	// Worse are the rows that have to be worse, all of them.
	Worse []expected `json:"worse"`
	// Tests are arguments of go test for the test that sees it, where that is one of make test
	// and no check of the gate.
	Tests []string `json:"tests"`
	// Says is a part of what that test says.
	Says string `json:"says"`
}

// expected is a row: its ID, and what its reason begins with.
type expected struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

var beginning = regexp.MustCompile(`(?m)^diff --git `)

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
	at := beginning.FindIndex(text)
	if at == nil {
		return p, errors.New("there is no patch in it")
	}
	if err := yaml.UnmarshalStrict(text[:at[0]], &p); err != nil {
		return p, err
	}
	gated, tested := len(p.Checks) > 0 && len(p.Worse) > 0, len(p.Tests) > 0 && p.Says != ""
	if p.Bug == "" || gated == tested {
		return p, errors.New("it has to say its bug, and either the checks that see it and the rows that are worse, or the test that sees it and what that says")
	}
	p.name = strings.TrimSuffix(filepath.Base(file), ".patch")
	p.path, err = filepath.Abs(file)
	return p, err
}

// into changes a tree.
func (p plant) into(t *testing.T, dir string, flags ...string) {
	t.Helper()
	if err := tree.Patch(t.Context(), dir, p.path, flags...); err != nil {
		t.Fatal(fmt.Errorf("planting a regression, whose patch has to be made anew where what it changes has changed: %w", err))
	}
}

// Nobody wants to learn this an hour later.
func TestWhatIsPlantedCanBe(t *testing.T) {
	g, copied := NewWithT(t), filepath.Join(t.TempDir(), "copy")
	g.Expect(tree.Copy(root, copied)).To(Succeed())
	all := plants(t)
	var names []string
	for _, p := range all {
		p.into(t, copied, "--check")
		names = append(names, p.name)
	}
	g.Expect(names).To(ConsistOf("extra-write", "live-read", "quadratic-loop", "flaky-spec", "removed-field",
		"crd-default", "tenant-verb", "pod-guard", "allocation"))
}

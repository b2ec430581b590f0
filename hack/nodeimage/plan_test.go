package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// requirements reads module versions out of a go.mod.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 && strings.HasPrefix(words[1], "v") {
			versions[words[0]] = words[1]
		}
	}
	return versions
}

func TestVersionsAreThoseOfTheControlPlane(t *testing.T) {
	ours, theirs := requirements(t, "kubernetes/go.mod"), requirements(t, "../controlplane/go.mod")
	if theirs[kubernetesModule] == "" || len(theirs) < 20 {
		t.Fatalf("read only %d requirements of the control plane", len(theirs))
	}
	for module, want := range theirs {
		if got := ours[module]; got != want {
			t.Errorf("%s is %q here and %q in hack/controlplane", module, got, want)
		}
	}
}

// tools reads the tool directives of a go.mod.
func tools(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "\ntool (\n")
	if !found {
		t.Fatalf("%s has no block of tools", path)
	}
	block, _, _ = strings.Cut(block, ")")
	return strings.Fields(block)
}

func TestEveryProgramIsPinnedAndEveryPinIsUsed(t *testing.T) {
	for _, module := range []string{"kubernetes", "node"} {
		var built []string
		for _, prog := range programs {
			if prog.module == module {
				built = append(built, prog.pkg)
			}
		}
		pins := tools(t, filepath.Join(module, "go.mod"))
		slices.Sort(built)
		slices.Sort(pins)
		if !slices.Equal(built, pins) {
			t.Errorf("%s/go.mod pins\n%v\nand what is built is\n%v", module, pins, built)
		}
	}
}

func TestHashInputs(t *testing.T) {
	dir := t.TempDir()
	pin := func(version string) {
		write(t, dir, "tools/go.mod", "require sigs.k8s.io/kind "+version+"\n")
	}
	pin("v0.33.0")
	write(t, dir, "nodeimage/files/a", "one")
	hash := func() string {
		t.Helper()
		sum, err := hashInputs(filepath.Join(dir, "nodeimage"))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	seen := []string{hash()}
	write(t, dir, "nodeimage/main_test.go", "a test")
	if hash() != seen[0] {
		t.Error("a test changes the hash")
	}
	for _, change := range []func(){
		func() { write(t, dir, "nodeimage/files/a", "two") },
		func() { write(t, dir, "nodeimage/files/b", "two") },
		func() { pin("v0.34.0") },
	} {
		change()
		if sum := hash(); slices.Contains(seen, sum) {
			t.Errorf("change %d of %d gives a hash that was there before", len(seen), 3)
		} else {
			seen = append(seen, sum)
		}
	}
}

func TestDebootstrapArgs(t *testing.T) {
	if got := debootstrapArgs("/dir", ""); got[len(got)-1] != "/dir" || !slices.Contains(got, "--force-check-gpg") {
		t.Errorf("without a mirror: %v", got)
	}
	if got := debootstrapArgs("/dir", "http://mirror.test/debian"); !slices.Equal(got[len(got)-2:],
		[]string{"/dir", "http://mirror.test/debian"}) {
		t.Errorf("with a mirror: %v", got)
	}
}

func TestPiped(t *testing.T) {
	got, err := piped(exec.CommandContext(t.Context(), "echo", "hello"), exec.CommandContext(t.Context(), "cat"))
	if err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, test := range map[string]struct{ from, to string }{
		"the first fails after half": {"echo half; echo out of paper >&2; exit 3", "cat >/dev/null"},
		"the second ends early":      {"yes", "echo out of paper >&2; exit 3"},
	} {
		_, err := piped(exec.CommandContext(t.Context(), "sh", "-c", test.from),
			exec.CommandContext(t.Context(), "sh", "-c", test.to))
		if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of paper") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

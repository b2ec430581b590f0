package proof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/trees"
)

// runs is the variable that says how often the checkout is compared with itself. Where it
// is not set, nothing is proved.
const runs = "GATE_RUNS"

// build builds the gate, or skips the test unless a proof is requested.
func build(t *testing.T) string {
	t.Helper()
	if os.Getenv(runs) == "" {
		t.Skip("this takes long: make gate PROOF=20 runs it")
	}
	program := filepath.Join(t.TempDir(), "gate")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./test/performance/gate")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the gate: %v\n%s", err, output)
	}
	return program
}

// run returns what a command prints and its exit code.
func run(t *testing.T, dir, program string, args ...string) (output string, code int) {
	t.Helper()
	assets, err := filepath.Abs(filepath.Join(root, "bin", "controlplane", "current"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, args...)
	// Tests that the command runs must not prove the gate again.
	command.Dir, command.Env = dir, append(os.Environ(), runs+"=")
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		command.Env = append(command.Env, "KUBEBUILDER_ASSETS="+assets)
	}
	text, err := command.CombinedOutput()
	t.Logf("%s", text)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %s: %v", program, err)
	}
	return string(text), command.ProcessState.ExitCode()
}

// judge compares a head with the commit that is checked out. It returns what the gate prints, and
// the IDs of what is worse, from its table.
func judge(t *testing.T, gate, head string, flags ...string) (output string, worse []string, code int) {
	t.Helper()
	args := []string{"-root", ".", "-base", "HEAD", "-head", head, "-dir", t.TempDir()}
	output, code = run(t, root, gate, append(args, flags...)...)
	for line := range strings.Lines(output) {
		if columns := strings.Split(line, " | "); columns[0] == "| worse" {
			worse = append(worse, columns[1])
		}
	}
	return output, worse, code
}

// worktree is a copy of the commit that is checked out, to be changed.
func worktree(t *testing.T) string {
	t.Helper()
	both, err := trees.Open(t.Context(), root, "HEAD", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := both.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	// Programs that are built for tests are not part of a commit.
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err == nil {
		err = os.Symlink(bin, filepath.Join(both.Head, "bin"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return both.Head
}

func TestPlantedRegressionsAreStopped(t *testing.T) {
	gate := build(t)
	for _, p := range plants(t) {
		t.Run(p.name, func(t *testing.T) {
			g, head := NewWithT(t), worktree(t)
			p.into(t, head)
			var output string
			var worse []string
			var code int
			if len(p.Tests) > 0 {
				output, code = run(t, head, "go", append([]string{"test", "-count=1"}, p.Tests...)...)
			} else {
				output, worse, code = judge(t, gate, head, "-only", p.Check)
			}
			for _, text := range p.Prints {
				g.Expect(output).To(ContainSubstring(text))
			}
			for _, id := range p.Worse {
				g.Expect(worse).To(ContainElement(id))
			}
			for _, id := range worse {
				beginsSo := func(prefix string) bool { return strings.HasPrefix(id, prefix) }
				g.Expect(slices.ContainsFunc(p.Within, beginsSo)).To(BeTrue(), "%s is worse, too", id)
			}
			g.Expect(code).To(Equal(1))
		})
	}
}

func TestACheckoutIsNotStoppedByItself(t *testing.T) {
	gate := build(t)
	n, err := strconv.Atoi(os.Getenv(runs))
	if err != nil {
		t.Fatalf("reading %s: %v", runs, err)
	}
	for i := range n {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			g := NewWithT(t)
			_, worse, code := judge(t, gate, "HEAD")
			g.Expect(worse).To(BeEmpty())
			g.Expect(code).To(BeZero())
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/internal/tree"
)

// proofs names the variable with the number of comparisons of the checkout with itself. Unset, the
// tests of the gate are skipped. `make gate PROOF=20` sets it.
const proofs = "GATE_PROOF"

var root = filepath.Join("..", "..", "..")

// plant is a regression that the gate must stop. Its file is a patch with a YAML header.
type plant struct {
	// Bug describes the regression in one sentence.
	Bug string `json:"bug"`
	// Check is the check of the gate that stops it, and Worse are the IDs that must be worse. All
	// IDs that are worse must begin with Within.
	Check  string   `json:"check"`
	Worse  []string `json:"worse"`
	Within []string `json:"within"`
	// Tests are the arguments of go test for a test of make test that stops it, if no check of the
	// gate does.
	Tests []string `json:"tests"`
	// Prints is in the output of the test or the gate. It distinguishes the regression from a
	// compile error.
	Prints []string `json:"prints"`
}

// plants returns the files of all planted regressions.
func plants(g Gomega) []string {
	files, err := filepath.Glob(filepath.Join("testdata", "planted", "*.patch"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(12))
	return files
}

// make test checks this early. make gate PROOF=20 would fail only after an hour.
func TestPlantedRegressionsApply(t *testing.T) {
	g := NewWithT(t)
	for _, file := range plants(g) {
		g.Expect(tree.Check(t.Context(), root, file)).To(Succeed())
	}
}

// prove skips a test unless a proof is requested, and otherwise returns the number of comparisons.
// Tests that the gate runs do not run it again.
func prove(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(proofs))
	if err != nil {
		t.Skip("this takes long: make gate PROOF=20 runs it")
	}
	t.Setenv(proofs, "")
	return n
}

// run returns the output and the exit code of a command.
func run(t *testing.T, dir string, args ...string) (output string, code int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	command.Dir, command.Env = dir, append(os.Environ(), "GO=go")
	text, err := command.CombinedOutput()
	t.Logf("%s", text)
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %s: %v", args[0], err)
	}
	return string(text), command.ProcessState.ExitCode()
}

func TestPlantedRegressionsAreStopped(t *testing.T) {
	prove(t)
	for _, file := range plants(NewWithT(t)) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g, head := NewWithT(t), filepath.Join(t.TempDir(), "head")
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			var p plant
			g.Expect(tree.Header(text, &p)).To(Succeed())
			bin, err := filepath.Abs(filepath.Join(root, "bin"))
			g.Expect(err).NotTo(HaveOccurred())
			_, code := run(t, root, "git", "worktree", "add", "--quiet", "--detach", head, "HEAD")
			g.Expect(code).To(BeZero())
			defer run(t, root, "git", "worktree", "remove", "--force", head)
			g.Expect(os.Symlink(bin, filepath.Join(head, "bin"))).To(Succeed(), "programs for tests are no part of a commit")
			g.Expect(tree.Patch(t.Context(), head, file)).To(Succeed())

			command := append([]string{"go", "test", "-count=1"}, p.Tests...)
			if p.Check != "" {
				command = []string{"hack/gate.sh", "HEAD", t.TempDir(), p.Check}
			}
			output, code := run(t, head, command...)
			g.Expect(code).To(Equal(1))
			for _, text := range p.Prints {
				g.Expect(output).To(ContainSubstring(text))
			}
			var worse []string
			for line := range strings.Lines(output) {
				if id, found := strings.CutPrefix(line, "| worse | "); found {
					id, _, _ = strings.Cut(id, " | ")
					worse = append(worse, id)
					begins := func(prefix string) bool { return strings.HasPrefix(id, prefix) }
					g.Expect(slices.ContainsFunc(p.Within, begins)).To(BeTrue(), "%s is worse, too", id)
				}
			}
			g.Expect(worse).To(ContainElements(p.Worse))
		})
	}
}

func TestEqualCheckoutsAreNotStopped(t *testing.T) {
	for i := range prove(t) {
		if output, code := run(t, root, "hack/gate.sh", "HEAD", t.TempDir()); code != 0 {
			t.Errorf("run %d ends with %d:\n%s", i+1, code, output)
		}
	}
}

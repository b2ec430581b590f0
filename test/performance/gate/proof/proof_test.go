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

	"leasehold.dev/test/performance/gate/report"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/trees"
)

// runs is the variable that says how often the checkout is compared with itself.
// Where it is not set, nothing is proved.
const runs = "GATE_RUNS"

// gate is the program, as it is built for a test.
type gate struct{ path, keep string }

// build builds the program, or skips the test if nothing is to be proved now.
func build(t *testing.T) gate {
	t.Helper()
	if os.Getenv(runs) == "" {
		t.Skip("this takes long: make gate-proof runs it")
	}
	path := filepath.Join(t.TempDir(), "gate")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./test/performance/gate")
	command.Dir = root
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the gate: %v\n%s", err, said)
	}
	keep, err := filepath.Abs(filepath.Join(os.Getenv("ARTIFACTS"), "gate-proof"))
	if os.Getenv("ARTIFACTS") == "" || err != nil {
		keep = t.TempDir()
	}
	return gate{path: path, keep: keep}
}

// judge compares a head with the commit that is checked out and returns the report
// and what the program ended with.
func (p gate) judge(t *testing.T, name, head string, flags ...string) (*report.Report, int) {
	t.Helper()
	dir := filepath.Join(p.keep, name)
	args := slices.Concat([]string{"-root", ".", "-base", "HEAD", "-head", head, "-dir", dir}, flags)
	command := exec.CommandContext(t.Context(), p.path, args...)
	command.Dir, command.Stderr = root, t.Output()
	// Tests that the gate runs are not to prove it.
	command.Env = append(os.Environ(), runs+"=")
	said, err := command.Output()
	t.Logf("%s", said)
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatalf("running the gate: %v", err)
	}
	r, err := report.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r, command.ProcessState.ExitCode()
}

// worktree is what is checked out, by itself, to be changed.
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
	return both.Head
}

func TestWhatIsPlantedIsStopped(t *testing.T) {
	program := build(t)
	for _, p := range plants(t) {
		t.Run(p.name, func(t *testing.T) {
			g, head := NewWithT(t), worktree(t)
			p.into(t, head)
			if len(p.Tests) > 0 {
				said, code := goTest(t, head, p.Tests)
				g.Expect(code).To(Equal(1))
				g.Expect(said).To(ContainSubstring(p.Says))
				return
			}
			r, code := program.judge(t, p.name, head, "-only", strings.Join(p.Checks, ","), "-seed", "1")
			var ids []string
			for _, want := range p.Worse {
				ids = append(ids, want.ID)
			}
			g.Expect(r.Undone()).To(BeEmpty())
			g.Expect(r.Worse()).To(ConsistOf(ids), "these rows and no others")
			for _, x := range r.Rows(row.Worse) {
				i := slices.IndexFunc(p.Worse, func(e expected) bool { return e.ID == x.ID })
				g.Expect(x.Reason).To(HavePrefix(p.Worse[i].Reason), x.ID)
			}
			g.Expect(code).To(Equal(1))
		})
	}
}

// goTest runs tests of a tree and returns what they said and what they ended with. A tree that
// does not compile fails the test too, but does not say what a plant expects.
func goTest(t *testing.T, dir string, args []string) (said string, code int) {
	t.Helper()
	assets, err := filepath.Abs(filepath.Join(root, "bin", "controlplane", "current"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1"}, args...)...)
	command.Dir, command.Env = dir, append(os.Environ(), runs+"=")
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		command.Env = append(command.Env, "KUBEBUILDER_ASSETS="+assets)
	}
	output, err := command.CombinedOutput()
	t.Logf("%s", output)
	if err != nil && command.ProcessState == nil {
		t.Fatalf("running go test: %v", err)
	}
	return string(output), command.ProcessState.ExitCode()
}

func TestACheckoutIsNotStoppedByItself(t *testing.T) {
	program := build(t)
	n, err := strconv.Atoi(os.Getenv(runs))
	if err != nil {
		t.Fatalf("reading %s: %v", runs, err)
	}
	for i := range n {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			g := NewWithT(t)
			r, code := program.judge(t, fmt.Sprintf("itself-%d", i+1), "HEAD")
			for _, verdict := range []row.Verdict{row.Worse, row.Unclear, row.Allowed, row.New, row.Gone} {
				g.Expect(r.Rows(verdict)).To(BeEmpty())
			}
			g.Expect(r.Rows(row.Same)).NotTo(BeEmpty())
			g.Expect(r.Undone()).To(BeEmpty())
			g.Expect(code).To(BeZero())
		})
	}
}

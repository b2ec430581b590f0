package suite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/performance/stage"
)

const junit = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="0">
  <testsuite name="tenant" tests="4">
    <testcase name="[SynchronizedBeforeSuite]" classname="tenant" status="passed" time="9"></testcase>
    <testcase name="[It] A Tenant is | made" classname="tenant" status="passed" time="1.5"></testcase>
    <testcase name="[It] A Tenant waits" classname="tenant" status="passed" time="2.5"></testcase>
    <testcase name="[It] A Tenant is left out" classname="tenant" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
  </testsuite>
  <testsuite name="viewer" tests="1">
    <testcase name="[It] A page is shown" classname="viewer" status="passed" time="0.5"></testcase>
  </testsuite>
  <testsuite name="empty" tests="0"></testsuite>
</testsuites>`

// bench has a checkout in which ginkgo is a script.
func bench(t *testing.T, script string) stage.Bench {
	t.Helper()
	root := t.TempDir()
	tools := filepath.Join(root, "bin", "tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	// A process that is forked meanwhile would hold the file open for a moment, and
	// nobody can run what is open for writing.
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(tools, "ginkgo"), []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "artifacts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return stage.Bench{Checkout: stage.Checkout{Dir: root}, Dir: dir, Seed: 7, Clock: clock.RealClock{}, Say: t.Logf}
}

// leaves has the script leave a report.
func leaves(t *testing.T, b stage.Bench, report string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.Dir, junitFile), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestARunIsTimedAndItsSpecsAreRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bench(t, `echo "$@"; (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done)`)
	leaves(t, b, junit)
	r, err := runSuites(t.Context(), b)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.cpu).To(BeNumerically(">", 0), "that of the child of the child")
	g.Expect(r.wall).To(BeNumerically(">", 0))
	g.Expect(r.suites).To(Equal(2))
	g.Expect(r.specs).To(HaveLen(3))
	g.Expect(r.slowest(2)).To(Equal([]spec{{"tenant", "A Tenant waits", 2.5}, {"tenant", "A Tenant is | made", 1.5}}))
	g.Expect(r.text()).To(And(ContainSubstring("Suites: 2, specs: 3,"), ContainSubstring(`| 1.5 | tenant | A Tenant is \| made |`)))
	said, err := os.ReadFile(filepath.Join(b.Dir, logFile))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(said)).To(And(ContainSubstring("--randomize-all"), ContainSubstring("--seed=3 "), HaveSuffix("./test/integration\n")))
}

func TestWhatARunIsHeldAgainst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := &ran{wall: 60 * time.Second, cpu: 94 * time.Second, cores: 2}
	values := map[string]float64{}
	for _, f := range r.figures(3) {
		values[f.ID] = f.Runs[0]
	}
	g.Expect(values).To(Equal(map[string]float64{"H1.wall": 60, "H1.cpu": 94, "H1.floor": 50, "H1.ratio": 1.2}))
}

func TestARunThatProvesNothingIsAnError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, report, want string }{
		"Failed":        {"exit 1", strings.Replace(junit, `status="passed" time="2.5">`, `status="failed" time="2.5"><failure message="no"></failure>`, 1), "A Tenant waits"},
		"FailedAround":  {"exit 1", strings.Replace(junit, `time="9">`, `time="9"><failure message="no"></failure>`, 1), "SynchronizedBeforeSuite"},
		"DidNotCompile": {"exit 1", "", "exit status 1"},
		"NoSpecs":       {"", `<testsuites></testsuites>`, "no spec has run"},
		"NoReport":      {"", "", junitFile},
		"BadReport":     {"", "{}", "reading the report"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bench(t, tc.script)
			if tc.report != "" {
				leaves(t, b, tc.report)
			}
			_, err := runSuites(t.Context(), b)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestWithoutGinkgoItSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := stage.Bench{Checkout: stage.Checkout{Dir: t.TempDir()}, Dir: t.TempDir(), Clock: clock.RealClock{}, Say: t.Logf}
	_, err := runSuites(t.Context(), b)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("make bin/tools/ginkgo")))
}

// Those that it has started stop what they have started, and are waited for.
func TestWhoBreaksOffInterruptsTheSuitesOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := bench(t, `count=0
trap 'count=$((count+1))' INT
touch "$ARTIFACTS/begun"
while [ $count -eq 0 ]; do sleep 0.05; done
sleep 0.3
echo $count > "$ARTIFACTS/interrupted"`)
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := runSuites(ctx, b)
		done <- err
	}()
	g.Eventually(func(g Gomega) { g.Expect(filepath.Join(b.Dir, "begun")).To(BeARegularFile()) }).WithTimeout(10 * time.Second).Should(Succeed())
	interrupt()
	g.Eventually(done).WithTimeout(10 * time.Second).Should(Receive(MatchError(context.Canceled)))
	times, err := os.ReadFile(filepath.Join(b.Dir, "interrupted"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(times)).To(Equal("1\n"))
}

// It is the one test that has seen the real thing: two pairs of control planes, and
// two specs of the suite of Tenants.
func TestAQuickMeasureHasAllFigures(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	g.Expect(err).NotTo(HaveOccurred())
	b := stage.Bench{Checkout: stage.Checkout{Dir: root}, Dir: t.TempDir(), Seed: 7, Quick: true, Clock: clock.RealClock{}, Say: t.Logf}
	section, err := Measure(t.Context(), b)
	g.Expect(err).NotTo(HaveOccurred())
	runs := map[string]int{}
	for _, f := range section.Figures {
		runs[f.ID] = len(f.Runs)
		for _, run := range f.Runs {
			g.Expect(run).To(BeNumerically(">", 0), f.ID)
		}
	}
	g.Expect(runs).To(Equal(map[string]int{"H2.start": 2, "H2.start.peer": 2, "H2.start.ratio": 2, "H1.wall": 1, "H1.cpu": 1, "H1.floor": 1, "H1.ratio": 1}))
	g.Expect(section.Text).To(ContainSubstring("Suites: 1, specs: 2,"), fmt.Sprint(section))
}

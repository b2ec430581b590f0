// SPDX-License-Identifier: Apache-2.0

package subject_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	// The archiver needs both, and go mod tidy does not look into testdata.
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/log/zap"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/sandbox"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

func TestMain(m *testing.M) {
	code, entered, err := sandbox.Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if !entered {
		code = m.Run()
	}
	os.Exit(code)
}

// archiver is an operator as others write them: see docs/scenarios.md.
const archiver = "../testdata/archiver"

// flaw is a mistake, a plan that shows it, and the promise that is broken.
type flaw struct {
	plan, broken string
	// racy flaws are about what the cache has not received yet, so they can show in a
	// clean run too: if two reconciliations of one object are a second apart and the
	// watch is slower.
	racy bool
}

var (
	// The mistakes of the archiver as it is.
	flaws = []flaw{
		{plan: "backup-life:lost-response:POST:/apis/batch/v1/namespaces/default/jobs:1",
			broken: invariant.SingleLifecycle.Name},
		{plan: "backup-life:failed-write-500:DELETE:/api/v1/namespaces/archiver-system/configmaps/default.{backup}:1",
			broken: invariant.FinalizerOrder.Name},
	}
	// Those with the tag careless: 4, 7 and 8 of docs/restarts.md.
	careless = []flaw{
		{plan: "backup-changed:stale-start:START:/apis/archive.example.com/v1/backups:4",
			broken: invariant.SingleLifecycle.Name},
		{plan: "backup-changed:crash-after-write:PUT:/api/v1/namespaces/archiver-system/configmaps/default.{backup}:1",
			broken: invariant.EndState.Name},
		{plan: "backup-changed:stale-start:START:/apis/archive.example.com/v1/backups:3",
			broken: invariant.TruthfulStatus.Name, racy: true},
	}
)

// The same plans find the flaws where they are, and nothing where they are not.
func TestSlowAnotherOperatorIsProved(t *testing.T) {
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		t.Skip("judging needs the audit log of a control plane of its own")
	}
	for name, tc := range map[string]struct {
		tags   string
		flawed bool
		plans  []flaw
	}{
		"AsItIs":   {"", true, flaws},
		"Careless": {"fixed,careless", true, careless},
		"Fixed":    {"fixed", false, slices.Concat(flaws, careless)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s, err := subject.Load(t.Context(), filepath.Join(archiver, "subject.yaml"), built(t, "-tags="+tc.tags))
			g.Expect(err).NotTo(HaveOccurred())
			text, err := os.ReadFile(filepath.Join("testdata", "backup-changed.yaml"))
			g.Expect(err).NotTo(HaveOccurred())
			changed, err := scenario.Parse(text)
			g.Expect(err).NotTo(HaveOccurred())
			prover, err := run.Start(t.Context(), run.Options{Subject: s.Subject, Random: rand.New(rand.NewPCG(1, 2))})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(prover.Stop(t.Context())).To(Succeed()) })
			for _, of := range append(s.Scenarios, changed) {
				plans := slices.DeleteFunc(slices.Clone(tc.plans), func(f flaw) bool {
					return !strings.HasPrefix(f.plan, of.Name+":")
				})
				if len(plans) > 0 {
					proveFlaws(t, prover, of, plans, tc.flawed)
				}
			}
		})
	}
}

// proveFlaws runs the plans of a scenario.
func proveFlaws(t *testing.T, prover *run.Prover, of scenario.Scenario, plans []flaw, flawed bool) {
	t.Helper()
	g := NewWithT(t)
	reference, err := prover.Reference(t.Context(), of, 2)
	g.Expect(err).NotTo(HaveOccurred())
	for _, outcome := range reference.Outcomes {
		unexpected := slices.DeleteFunc(broken(outcome), func(id string) bool {
			return flawed && slices.ContainsFunc(plans, func(f flaw) bool { return f.racy && f.broken == id })
		})
		g.Expect(unexpected).To(BeEmpty(), "%v", outcome.Verdicts)
		g.Expect(outcome.Result).NotTo(Equal(invariant.Inconclusive), "%v", outcome.Verdicts)
	}
	derived := reference.Plans(1)
	for _, flaw := range plans {
		plan, err := run.ParsePlan(flaw.plan)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(slices.ContainsFunc(derived, func(p run.Plan) bool {
			return p.Fault == plan.Fault && p.Target == plan.Target
		})).To(BeTrue(), "%s is not among %v", flaw.plan, derived)
		outcome, err := prover.Run(t.Context(), reference, plan)
		g.Expect(err).NotTo(HaveOccurred())
		if !flawed {
			g.Expect(outcome.Result).To(Equal(invariant.Held), "%s: %v", flaw.plan, outcome.Verdicts)
			continue
		}
		g.Expect(outcome.Result).To(Equal(invariant.Broken), flaw.plan)
		g.Expect(broken(outcome)).To(ContainElement(flaw.broken), flaw.plan)
	}
}

func built(t *testing.T, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "archiver")
	args := slices.Concat([]string{"build", "-o", binary}, flags, []string{"."})
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = archiver
	output, err := cmd.CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s", output)
	return binary
}

func broken(o run.Judged) []string {
	var ids []string
	for _, v := range o.Verdicts {
		if v.Result == invariant.Broken {
			ids = append(ids, v.Invariant)
		}
	}
	return ids
}

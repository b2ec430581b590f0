package run

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

// plansOf are those of a scenario with so many writes, by fault:
// the number of the write that each is about.
func plansOf(writes int, seed uint64) map[string][]int {
	var run observation
	for i := range writes {
		run.Writes = append(run.Writes, write{Method: "PATCH", Path: "/" + strconv.Itoa(i), Effective: true})
	}
	of := map[string][]int{}
	for _, p := range derivePlans(scenario.Scenario{Name: "s"}, []observation{run}, seed) {
		kind := string(p.Fault)
		if p.Variant != "" {
			kind += "-" + p.Variant
		}
		n, err := strconv.Atoi(p.Target.Path[1:])
		if err != nil {
			continue // another's
		}
		of[kind] = append(of[kind], n)
	}
	return of
}

func TestPlans_LateWritesAtEachWrite(t *testing.T) {
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, plansOf(5, 1)["late-write"]); diff != "" {
		t.Errorf("late-write (-want +got):\n%s", diff)
	}
}

func TestPlans_LeaderFaultsAtAFewWrites(t *testing.T) {
	between := map[int]bool{}
	for seed := range uint64(50) {
		plans := plansOf(5, seed)
		for _, kind := range []string{"leader-pause", "stop-leader", "slow-stop"} {
			at := plans[kind]
			if len(at) != 3 || at[0] != 0 || at[2] != 4 || at[1] <= 0 || at[1] >= 4 {
				t.Fatalf("%s is at %v, want the first write, the last, and one between", kind, at)
			}
			between[at[1]] = true
		}
		for _, kind := range []string{"leader-partition", "full-partition", "partitioned-start", "stop-standby", "stop-at-start",
			"upgrade"} {
			if at := plans[kind]; len(at) != 1 || at[0] < 0 || at[0] > 4 {
				t.Fatalf("%s is at %v, want one write", kind, at)
			}
		}
		if diff := cmp.Diff(plans, plansOf(5, seed)); diff != "" {
			t.Fatalf("the same seed gives other plans:\n%s", diff)
		}
	}
	if len(between) != 3 {
		t.Errorf("between are %v, want all of them at some time", between)
	}
}

func TestPlans_FewWritesEachOnce(t *testing.T) {
	for writes, want := range map[int][]int{0: nil, 1: {0}, 2: {0, 1}, 3: {0, 1, 2}} {
		if diff := cmp.Diff(want, plansOf(writes, 1)["leader-pause"]); diff != "" {
			t.Errorf("of %d writes (-want +got):\n%s", writes, diff)
		}
	}
}

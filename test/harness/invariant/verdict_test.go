// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestSum(t *testing.T) {
	attack := history.FaultRecord{Name: "f", Happened: 1, Attack: true}
	happened, not := history.FaultRecord{Name: "f", Happened: 1}, history.FaultRecord{Name: "f"}
	verdicts := func(o1, o2 invariant.Result) []invariant.Verdict {
		return []invariant.Verdict{{Invariant: "end-state", Result: o1}, {Invariant: "single-lifecycle", Result: o2}}
	}
	for name, tc := range map[string]struct {
		fault    history.FaultRecord
		verdicts []invariant.Verdict
		want     invariant.Result
	}{
		"Held":               {happened, verdicts(invariant.Held, invariant.Held), invariant.Held},
		"Broken":             {happened, verdicts(invariant.Held, invariant.Broken), invariant.Broken},
		"Undecided":          {happened, verdicts(invariant.Inconclusive, invariant.Held), invariant.Inconclusive},
		"NotWhatItIsAbout":   {happened, verdicts(invariant.Held, invariant.Inconclusive), invariant.Held},
		"BrokenAndUndecided": {happened, verdicts(invariant.Inconclusive, invariant.Broken), invariant.Broken},
		"CostUndecided": {attack, append(verdicts(invariant.Held, invariant.Held),
			invariant.Verdict{Invariant: "tenant-isolation", Result: invariant.Inconclusive}), invariant.Inconclusive},
		"NoAttack": {happened, append(verdicts(invariant.Held, invariant.Held),
			invariant.Verdict{Invariant: "tenant-isolation", Result: invariant.Inconclusive}), invariant.Held},
		"RejectedStep": {happened, []invariant.Verdict{{Invariant: "convergence", Result: invariant.Inconclusive}},
			invariant.Inconclusive},
		"RejectedCleanup": {happened, []invariant.Verdict{{Invariant: "convergence", Result: invariant.Inconclusive}},
			invariant.Held},
		"Void":            {not, verdicts(invariant.Held, invariant.Held), invariant.Void},
		"VoidHasNoDoubts": {not, verdicts(invariant.Inconclusive, invariant.Held), invariant.Void},
		"NotApplicable": {history.FaultRecord{NotApplicable: true}, verdicts(invariant.Inconclusive, invariant.Broken),
			invariant.NotApplicable},
		"BrokenWithoutAFault": {not, verdicts(invariant.Broken, invariant.Held), invariant.Void},
	} {
		h := &history.History{Faults: []history.FaultRecord{tc.fault}}
		if name == "RejectedStep" || name == "RejectedCleanup" {
			h.Rejections = []history.Rejection{{Step: map[string]string{"RejectedStep": "step 1"}[name]}}
		}
		if got := invariant.Sum(h, tc.verdicts, []string{"end-state"}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package invariant

// ExpectedRights compares what users may do with what the scenario expects.
var ExpectedRights = Invariant{
	Name: "expected-rights",
	Bug:  "https://github.com/FoundationDB/fdb-kubernetes-operator/issues/10",
	Promise: "users have the rights that the scenario expects and no others, and requests that must be refused " +
		"are refused",
	judge: func(b *judgement) {
		for _, d := range b.History.Decisions {
			b.checked++
			if d.Allowed == d.Want {
				continue
			}
			b.addViolation("at step %q %s is %t, want %t", d.Step, d.Action, d.Allowed, d.Want)
		}
	},
}

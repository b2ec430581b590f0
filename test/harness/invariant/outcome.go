// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"time"

	"leasehold.dev/test/harness/history"
)

// Outcome is the result of a run.
type Outcome struct {
	// Name is that of the run's folder, unique in a sweep.
	Name     string `json:"name"`
	Scenario string `json:"scenario"`
	// Fault is the kind of the fault, such as crash-after-write; "" for a clean run.
	Fault string `json:"fault,omitempty"`
	// Plan is the plan's ID; "" for a clean run. Words describe it to people.
	Plan  string `json:"plan,omitempty"`
	Words string `json:"words,omitempty"`
	// Replay is the command that repeats the run.
	Replay string `json:"replay"`
	// Invariants are the names of those without which the run proves nothing.
	Invariants []string              `json:"invariants,omitempty"`
	Result     Result                `json:"result"`
	Verdicts   []Verdict             `json:"verdicts"`
	Findings   []Finding             `json:"findings,omitempty"`
	Faults     []history.FaultRecord `json:"faults,omitempty"`
	Took       time.Duration         `json:"took"`
	// Releases counts those of the Lease by the harness.
	Releases int `json:"releases,omitempty"`
	// Leftovers are the objects that the operator created and left behind, which the harness deleted.
	Leftovers []string `json:"leftovers,omitempty"`
	// Requests are those of a clean run.
	Requests []RequestCount `json:"requests,omitempty"`
}

// RequestCount counts the requests of an operator with one method and one path in one step of a run.
type RequestCount struct {
	// Step is the name of the checkpoint that ends the step.
	Step   string `json:"step"`
	Method string `json:"method"`
	// Resource has a subresource, as in tenants.leasehold.dev/status.
	Resource string `json:"resource"`
	// Path has placeholders for names of the scenario, as a plan has.
	Path  string `json:"path"`
	Count int    `json:"count"`
}

// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Source is a recorder that listened during a run.
type Source string

const (
	// Audit is the API server's audit log: requests and their effects.
	Audit Source = "audit"
	// Watch is the harness's own watch of every version of every object.
	Watch Source = "watch"
	// External is a proxy in front of the external system.
	External Source = "external"
	// Processes is the supervisor of the replicas' processes.
	Processes Source = "processes"
	// Probes is the prober of the replicas' endpoints and informers.
	Probes Source = "probes"
)

// History is the record of one run. Each list is in the order of Sort.
type History struct {
	// Recorded are the sources that listened during the whole run.
	Recorded []Source `json:"recorded"`
	// Began is the start of the run. Processes may be older.
	Began time.Time `json:"began,omitzero"`
	// Aliases maps the names that this run made up to the scenario's placeholders. They identify
	// the same object in two runs of a scenario.
	Aliases     map[string]string `json:"aliases,omitempty"`
	Requests    []Request         `json:"requests,omitempty"`
	Versions    []Version         `json:"versions,omitempty"`
	Events      []Event           `json:"events,omitempty"`
	Calls       []Call            `json:"calls,omitempty"`
	Faults      []FaultRecord     `json:"faults,omitempty"`
	Checkpoints []Checkpoint      `json:"marks,omitempty"`
	Replicas    []Process         `json:"replicas,omitempty"`
	Probes      []Probe           `json:"probes,omitempty"`
	Followed    []Following       `json:"followed,omitempty"`
	// Decisions are answers of admission and authorization that the scenario expects.
	Decisions []Decision `json:"decisions,omitempty"`
	// Rejections are steps that the API server did not accept, and that the scenario does not
	// expect it to refuse.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Leftovers are objects that the operator created, and that still existed after all objects of the
	// users were gone.
	Leftovers []Key `json:"leftovers,omitempty"`
	// Releases are those of the Lease by the harness.
	Releases []LeaseRelease `json:"releases,omitempty"`
	// Hostile are the namespaces of the scenario's attackers, with or without an attack in this
	// run.
	Hostile []string `json:"hostile,omitempty"`
}

// Has reports whether one of the sources listened.
func (h *History) Has(anyOf ...Source) bool {
	return slices.ContainsFunc(anyOf, func(s Source) bool { return slices.Contains(h.Recorded, s) })
}

// NeedsNoError begins FaultRecord.Legal where no error has to precede the start.
const NeedsNoError = "needs no error: "

// FaultRecord is the outcome of a planned fault.
type FaultRecord struct {
	Name string `json:"name"`
	// Replica is the affected replica; "" means all.
	Replica string `json:"replica,omitempty"`
	// Happened counts its occurrences. A run with a fault that did not happen is void.
	Happened int       `json:"happened"`
	Began    time.Time `json:"began,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Detail   string    `json:"detail,omitempty"`
	// Legal says which documented behavior of the API server makes a stale start legal, and after which requests.
	Legal string `json:"legal,omitempty"`
	// Touched are the objects that the fault changed or deleted.
	Touched []Key `json:"touched,omitempty"`
	// Overtaken is until when its replica may write after another one has begun to lead, as the
	// election of client-go has no fence. Zero: it may not.
	Overtaken time.Time `json:"overtaken,omitzero"`
	// Attack means that the fault was a hostile user.
	Attack bool `json:"attack,omitempty"`
	// NotApplicable means that the fault cannot happen to this operator.
	NotApplicable bool `json:"notApplicable,omitempty"`
}

// String returns what happened, and why that is legal.
func (f FaultRecord) String() string {
	if f.Legal == "" {
		return f.Detail
	}
	return f.Detail + "; this " + f.Legal
}

// Decision is the API server's answer to an access review or to a step's request.
type Decision struct {
	// Step is the name of the scenario's step.
	Step string `json:"step"`
	// Action describes the user and the access, with names of this run.
	Action string `json:"action"`
	// Want is the expected answer, Allowed the actual one.
	Want    bool      `json:"want"`
	Allowed bool      `json:"allowed"`
	At      time.Time `json:"at"`
}

// Rejection is a request of a scenario's user that the API server did not accept, as when an
// admission webhook denies it.
type Rejection struct {
	// Step is the number and the name of the step; "" in the cleanup after the run.
	Step    string `json:"step,omitempty"`
	Object  string `json:"object"`
	Message string `json:"message"`
	// Allowed means that the scenario lets the API server refuse the step.
	Allowed bool      `json:"allowed,omitempty"`
	At      time.Time `json:"at"`
}

// Unexpected reports whether it is of a step that the API server had to accept.
func (r Rejection) Unexpected() bool { return r.Step != "" && !r.Allowed }

// String names the step and gives the API server's message.
func (r Rejection) String() string {
	return fmt.Sprintf("%s of %s was rejected: %s", cmp.Or(r.Step, "the cleanup"), r.Object, r.Message)
}

// Void returns the faults that did not happen. A run with any proves nothing.
func (h *History) Void() []FaultRecord {
	return slices.DeleteFunc(slices.Clone(h.Faults), func(f FaultRecord) bool { return f.Happened > 0 })
}

// CheckpointsBefore counts the checkpoints that had ended at a time.
func (h *History) CheckpointsBefore(at time.Time) (n int) {
	for _, c := range h.Checkpoints {
		if c.Ended.Before(at) {
			n++
		}
	}
	return n
}

// Checkpoint is a period without actions of users and without faults. The operator could converge
// before, and has nothing to do during it.
type Checkpoint struct {
	Name string `json:"name"`
	// Converged means that the scenario's conditions were met.
	Converged bool `json:"converged"`
	// Unmet are the conditions that were not met.
	Unmet []string `json:"unmet,omitempty"`
	// Like is the name of an earlier checkpoint whose state this one has to have; "" if there is none.
	Like string `json:"like,omitempty"`
	// Hasty means that users changed one object several times since the checkpoint before, so the
	// operator may have missed what was between.
	Hasty bool `json:"hasty,omitempty"`
	// Busy means that the operator is not done, so that the state may differ from run to run.
	Busy  bool      `json:"busy,omitempty"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	// Acted is the time of the users' last action before, and Reached the time of convergence
	// after it. Zero means that it did not happen or is not known.
	Acted   time.Time `json:"acted,omitzero"`
	Reached time.Time `json:"reached,omitzero"`
	// The range starts at the last revision before the checkpoint and ends at one that was stored
	// after it.
	RevisionRange
	// Listed means that Things was read from the external system itself.
	Listed bool            `json:"looked,omitempty"`
	Things []ExternalThing `json:"things,omitempty"`
}

// AtRest reports whether the operator was done at the checkpoint, so that its state can be compared.
func (m Checkpoint) AtRest() bool { return m.Converged && !m.Busy }

// Contains reports whether a request certainly happened during the checkpoint. The revisions place
// what was stored; the times also place what was not.
func (m Checkpoint) Contains(s RevisionRange, at time.Time) bool {
	return m.From <= s.From && s != At(m.From) && (m.To == 0 || s.Before(At(m.To))) &&
		at.After(m.Began) && !at.After(m.Ended)
}

// Process is one process of the operator, from its start to its end.
type Process struct {
	// Name is its Pod's.
	Name string `json:"name"`
	// Build names the program's version, for runs with two versions.
	Build   string    `json:"build,omitempty"`
	Started time.Time `json:"started"`
	// Asked is the time of SIGTERM; zero if there was none.
	Asked time.Time `json:"asked,omitzero"`
	// Killed means that the process received SIGKILL without SIGTERM.
	Killed bool `json:"killed,omitempty"`
	// Ended is the time of its end; zero if it ran until the end of the run.
	Ended time.Time `json:"ended,omitzero"`
	// Exit is its exit code, meaningful if it ended and was not killed.
	Exit int `json:"exit,omitempty"`
}

// Normalizer replaces the names that this run made up by the scenario's placeholders.
func (h *History) Normalizer() *strings.Replacer {
	pairs := make([]string, 0, 2*len(h.Aliases))
	// Where one name begins another, the longer one is meant. It is the later one in the order of texts.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(h.Aliases))) {
		pairs = append(pairs, name, h.Aliases[name])
	}
	return strings.NewReplacer(pairs...)
}

// Answered reports whether the users of an operator did something for the run: whether they wrote an object that was
// created in it, changed one outside their own namespace, or called the external system. Leases and events do not
// count, because an operator also writes them while it waits for what a scenario lacks.
func (h *History) Answered(users []string, own string) bool {
	created := map[Key]bool{}
	for _, r := range h.Requests {
		created[r.Key] = created[r.Key] || r.Made
	}
	return len(h.Calls) > 0 || slices.ContainsFunc(h.Requests, func(r Request) bool {
		return r.Write() && slices.Contains(users, r.User) && r.Resource != Leases && r.Resource.Resource != "events" &&
			(created[r.Key] || r.Done() && r.Namespace != own)
	})
}

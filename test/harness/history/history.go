package history

import (
	"slices"
	"strings"
	"time"
)

// Source is something that was listening during a run.
type Source string

const (
	// Audit is the API server's audit log: requests, and what they stored.
	Audit Source = "audit"
	// Watch is a watch of the harness's own: every version of every object.
	Watch Source = "watch"
	// External is a proxy in front of what is outside the cluster.
	External Source = "external"
	// Processes is who started and ended the replicas.
	Processes Source = "processes"
	// Probes is who asked the replicas how they are, and what they follow.
	Probes Source = "probes"
)

// History is what happened in one run. Each list is in the order of Sort.
type History struct {
	// Recorded are the sources that were listening all the time.
	Recorded []Source `json:"recorded"`
	// Began is when the run did. Processes may be older.
	Began time.Time `json:"began,omitzero"`
	// Aliases are names that this run made up, with what the scenario calls them.
	// By them the objects of two runs of a scenario are told to be the same.
	Aliases  map[string]string `json:"aliases,omitempty"`
	Requests []Request         `json:"requests,omitempty"`
	Versions []Version         `json:"versions,omitempty"`
	Events   []Event           `json:"events,omitempty"`
	Calls    []Call            `json:"calls,omitempty"`
	Faults   []Fault           `json:"faults,omitempty"`
	Marks    []Mark            `json:"marks,omitempty"`
	Replicas []Replica         `json:"replicas,omitempty"`
	Probes   []Probe           `json:"probes,omitempty"`
	Followed []Following       `json:"followed,omitempty"`
	// Decisions are the answers that a scenario expects of admission and authorization.
	Decisions []Decision `json:"decisions,omitempty"`
	// Hostile are the namespaces from which the scenario's attacks come, whether there
	// was one in this run or not.
	Hostile []string `json:"hostile,omitempty"`
}

// Has reports whether one of the sources was listening.
func (h *History) Has(anyOf ...Source) bool {
	return slices.ContainsFunc(anyOf, func(s Source) bool { return slices.Contains(h.Recorded, s) })
}

// Fault is something that was meant to go wrong.
type Fault struct {
	Name string `json:"name"`
	// Replica is whom it was meant for; "" is all.
	Replica string `json:"replica,omitempty"`
	// Happened is how often it did. A run in which a fault did not is void.
	Happened int       `json:"happened"`
	Began    time.Time `json:"began,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Span
	Detail string `json:"detail,omitempty"`
	// Touched are objects that were changed or deleted as part of it.
	Touched []Key `json:"touched,omitempty"`
	// Denies says that the fault took rights of the operator away: what is forbidden to
	// it meanwhile is the fault's doing.
	Denies bool `json:"denies,omitempty"`
	// Attack says that it was a hostile user.
	Attack bool `json:"attack,omitempty"`
	// FalseEnd says that the fault reported the end of the replica's process, which ran:
	// that another replica then takes the Lease early is the fault's doing.
	FalseEnd bool `json:"falseEnd,omitempty"`
	// Unelected says that the fault made the replica act without an election.
	Unelected bool `json:"unelected,omitempty"`
}

// Decision is an answer of the API server to whether a user may do something: an
// access review, or a request that a step has made.
type Decision struct {
	// Step is the scenario's step that expects it.
	Step string `json:"step"`
	// During is the fault that was active; "" is none.
	During string `json:"during,omitempty"`
	// Action is who does what, with names of this run.
	Action string `json:"action"`
	// Want is the answer that is expected, Allowed the one that came.
	Want    bool      `json:"want"`
	Allowed bool      `json:"allowed"`
	At      time.Time `json:"at"`
}

// Void returns the faults that did not happen. A run that has any proves nothing.
func (h *History) Void() []Fault {
	return slices.DeleteFunc(slices.Clone(h.Faults), func(f Fault) bool { return f.Happened > 0 })
}

// Mark is a time in which users and faults were at rest: the operator had every
// chance to reach what is desired, and from then on nothing to do.
type Mark struct {
	Name string `json:"name"`
	// Converged says that the scenario's condition for having settled was met.
	Converged bool      `json:"converged"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	// Acted is when users did something for the last time before, and Reached when
	// what is desired was reached after that; zero: it was not, or it is not known.
	Acted   time.Time `json:"acted,omitzero"`
	Reached time.Time `json:"reached,omitzero"`
	// Span goes from the version that was the last when it began to one that was
	// stored after its end: what is between them happened during it.
	Span
	// Looked says that Things was read from the external system itself.
	Looked bool    `json:"looked,omitempty"`
	Things []Thing `json:"things,omitempty"`
}

// Holds reports whether something that was asked for at a time certainly happened
// during the mark. The versions say what was stored, the times also place what
// never was.
func (m Mark) Holds(s Span, at time.Time) bool {
	return m.From <= s.From && s != At(m.From) && (m.To == 0 || s.Before(At(m.To))) &&
		at.After(m.Began) && !at.After(m.Ended)
}

// Replica is one process of the operator, from its start to its end.
type Replica struct {
	// Name is its Pod's.
	Name string `json:"name"`
	// Build says what it was built from, for runs with two versions.
	Build   string    `json:"build,omitempty"`
	Started time.Time `json:"started"`
	// Asked is when it was asked to stop (SIGTERM); zero: it was not.
	Asked time.Time `json:"asked,omitzero"`
	// Killed says that it was not given the chance to stop by itself.
	Killed bool `json:"killed,omitempty"`
	// Ended is when it was gone; zero: it still ran at the end.
	Ended time.Time `json:"ended,omitzero"`
	// Exit is its exit code, meaningful if it ended and was not killed.
	Exit int `json:"exit,omitempty"`
}

// Normal replaces the names that this run made up by what the scenario calls them.
func (h *History) Normal() *strings.Replacer {
	names := make([]string, 0, len(h.Aliases))
	for name := range h.Aliases {
		names = append(names, name)
	}
	// Where one name begins another, the longer one is meant.
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(names))
	for _, name := range names {
		pairs = append(pairs, name, h.Aliases[name])
	}
	return strings.NewReplacer(pairs...)
}

package scenario

import (
	"regexp"
	"slices"
)

// Second is a fault at a write of the recovery from the first fault of a plan. The zero value is
// none.
type Second struct {
	Fault   Fault  `json:"fault"`
	Variant string `json:"variant,omitempty"`
	// Target's Nth counts the requests of one replica since the first fault.
	Target Target `json:"target"`
}

// recoverable are the faults from which the operator has to recover before its next write.
var recoverable = []Fault{CrashAfterWrite, CrashBeforeWrite, StaleStart}

// inRecovery are the faults of a write of the recovery. All but those in unanswered need a
// write that changed something.
var (
	inRecovery = []Fault{CrashAfterWrite, CrashBeforeWrite, LostResponse, FailedWrite}
	unanswered = []Fault{CrashBeforeWrite, FailedWrite}
)

// secondFault matches the ID of a plan with two faults, and furtherFault a path that is the rest of
// such an ID.
var (
	secondFault  = regexp.MustCompile(`^(.*:\d+)\+([a-z].*)$`)
	furtherFault = regexp.MustCompile(`:\d+\s*\+`)
)

// HasRecovery reports whether a second fault can follow the plan's fault.
func (p Plan) HasRecovery() bool { return slices.Contains(recoverable, p.Fault) }

// HasSecond reports whether the plan has a second fault.
func (p Plan) HasSecond() bool { return p.Second != Second{} }

// First returns the plan without its second fault.
func (p Plan) First() Plan {
	p.Second = Second{}
	return p
}

// Pairs returns the plans with the plan's fault and a second one at a write of the recovery. It
// leaves out faults that the scenario does not have. The seed fixes the order and the codes
// of refusals.
func (p Plan) Pairs(s Scenario, recovery []Write, seed uint64) []Plan {
	var plans []Plan
	nth := map[Target]int{}
	for _, w := range recovery {
		t := Target{Method: w.Method, Path: w.Path}
		nth[t]++
		t.Nth = nth[Target{Method: w.Method, Path: w.Path}]
		for _, kind := range inRecovery {
			if !w.Effective && !slices.Contains(unanswered, kind) || len(s.Faults) > 0 &&
				!slices.Contains(s.Faults, kind) {
				continue
			}
			pair := p
			pair.Second = Second{Fault: kind, Target: t}
			if kind == FailedWrite {
				pair.Second.Variant = draw(seed, pair, texts(codes))
			}
			plans = append(plans, pair)
		}
	}
	slices.SortFunc(plans, Order(seed))
	return plans
}

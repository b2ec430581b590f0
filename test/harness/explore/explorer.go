package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Oracle names the rule that a finding violates.
type Oracle string

const (
	// Differential means that a changed object has another state than one that was created so.
	Differential Oracle = "differential"
	// Restore means that changing back does not restore the state.
	Restore Oracle = "restore"
	// Rejected means that a rejected change has an effect, or that the API server accepts what the
	// schema forbids.
	Rejected Oracle = "rejected"
	// Corrected means that correcting the spec does not end an error state.
	Corrected Oracle = "corrected"
)

// ErrNoFault means that the fault of a sequence did not happen, so the run shows nothing.
var ErrNoFault = errors.New("the fault did not happen")

// System runs an operator with objects of one kind.
type System interface {
	// Run creates an object with the first spec, changes it to each of the others, and reports
	// what there was at rest after each. With crash, the leader is killed at a write of its that
	// follows the first change, or the error is ErrNoFault.
	Run(ctx context.Context, specs []map[string]any, crash bool) ([]Rest, error)
}

// Rest is the state at rest after one spec was applied.
type Rest struct {
	// Rejected is the API server's reason; empty if it accepted the spec.
	Rejected string
	// Ready means that the object was as desired in time.
	Ready bool
	State State
	// Writes are the operator's writes since the API server received a spec that it rejected.
	Writes []string
}

// Sequence is a series of changes of the sample. Each is a change of the sample itself, so it leads
// to the same spec at each position.
type Sequence struct {
	Changes []Change
	// Crash kills the leader while it reconciles the first change.
	Crash bool
}

// String returns the names of the changes, in the format of Parse.
func (s Sequence) String() string {
	var ids []string
	if s.Crash {
		ids = append(ids, crash)
	}
	for _, c := range s.Changes {
		ids = append(ids, c.ID())
	}
	return strings.Join(ids, " ")
}

// crash marks a sequence with a crash.
const crash = "crash"

// Parse reads a sequence of these changes.
func Parse(line string, changes []Change) (Sequence, error) {
	var s Sequence
	for id := range strings.FieldsSeq(line) {
		if id == crash {
			s.Crash = true
			continue
		}
		i := slices.IndexFunc(changes, func(c Change) bool { return c.ID() == id })
		if i < 0 {
			return Sequence{}, fmt.Errorf("reading the changes: the schema and the sample have no change %q", id)
		}
		s.Changes = append(s.Changes, changes[i])
	}
	if len(s.Changes) == 0 {
		return Sequence{}, errors.New("reading the changes: there is none")
	}
	return s, nil
}

// Counterexample is one violation.
type Counterexample struct {
	Oracle   Oracle
	Sequence Sequence
	// Details are the differences.
	Details []string
	// Repeated means that the shortest sequence failed again.
	Repeated bool
	after    int // the number of changes that led to it
}

// Explorer checks sequences of changes of one object. Its methods may be called from several
// goroutines.
type Explorer struct {
	Kind   string
	Sample map[string]any
	// Changes are all changes.
	Changes []Change

	mu       sync.Mutex
	outcome  map[string]string // by the ID of a change: accepted, error state or rejected
	volatile volatile          // nil before learn
}

// Check runs a sequence and returns its findings, shrunk to the shortest sequence that fails.
func (e *Explorer) Check(ctx context.Context, on System, s Sequence) ([]Counterexample, error) {
	if err := e.learn(ctx, on); err != nil {
		return nil, err
	}
	found, err := e.run(ctx, on, s)
	for i, f := range found {
		if err == nil {
			found[i], err = e.shrink(ctx, on, f)
		}
	}
	return found, err
}

// learn creates the sample twice, once for all sequences: fields that differ, such as addresses
// and hashes of names, are not compared.
func (e *Explorer) learn(ctx context.Context, on System) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.volatile != nil {
		return nil
	}
	var states [2]State
	for i := range states {
		rests, err := on.Run(ctx, []map[string]any{e.Sample}, false)
		if err != nil {
			return fmt.Errorf("creating the sample of %s: %w", e.Kind, err)
		}
		states[i] = rests[0].State
	}
	e.volatile = volatileFields(states[0], states[1])
	return nil
}

func (e *Explorer) run(ctx context.Context, on System, s Sequence) ([]Counterexample, error) {
	specs := []map[string]any{e.Sample}
	for _, c := range s.Changes {
		spec, err := c.Apply(e.Sample)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	specs = append(specs, e.Sample)
	rests, err := on.Run(ctx, specs, s.Crash)
	if err != nil {
		return nil, fmt.Errorf("running %s %s: %w", e.Kind, s, err)
	}
	if len(rests) != len(specs) || rests[0].Rejected != "" || !rests[0].Ready {
		return nil, fmt.Errorf("running %s %s: the sample did not become ready: it is to be a valid one; %s", e.Kind, s,
			rests[0].Rejected)
	}
	var found []Counterexample
	for i, c := range s.Changes {
		oracle, details := Rejected, e.judgeRejection(c, rests[i], rests[i+1])
		if rests[i+1].Rejected == "" && len(details) == 0 {
			created, err := on.Run(ctx, []map[string]any{specs[i+1], e.Sample}, false)
			if err != nil {
				return found, fmt.Errorf("creating %s with %s: %w", e.Kind, c.ID(), err)
			}
			oracle, details = Differential, e.judgeChange(created[0], rests[i+1])
		}
		e.note(c, rests[i+1])
		if len(details) > 0 {
			found = append(found, Counterexample{Oracle: oracle, Sequence: s, Details: details, after: i + 1})
		}
	}
	if oracle, details := e.judgeReturn(rests); len(details) > 0 {
		found = append(found, Counterexample{Oracle: oracle, Sequence: s, Details: details, after: len(s.Changes)})
	}
	return found, nil
}

// judgeRejection judges a change that was rejected, or should have been.
func (e *Explorer) judgeRejection(c Change, before, after Rest) []string {
	if after.Rejected == "" {
		if c.Invalid {
			return []string{"the schema forbids the change, and the API server accepted it"}
		}
		return nil
	}
	details := differences(before.State, after.State, e.volatile)
	for _, write := range after.Writes {
		details = append(details, "the change was rejected, and the operator sent "+write)
	}
	return details
}

// judgeChange compares a changed object with one that was created with the same spec. An error
// state may keep what there was before, so only whether there is one is compared.
func (e *Explorer) judgeChange(created, changed Rest) []string {
	switch {
	case created.Rejected != "":
		return []string{"the API server accepts the change and rejects the creation: " + created.Rejected}
	case created.Ready != changed.Ready:
		return append([]string{fmt.Sprintf("ready is %t after the change and %t after the creation", changed.Ready,
			created.Ready)}, differences(created.State, changed.State, e.volatile)...)
	case !created.Ready:
		return nil
	}
	return differences(created.State, changed.State, e.volatile)
}

func (e *Explorer) judgeReturn(rests []Rest) (Oracle, []string) {
	first, last := rests[0], rests[len(rests)-1]
	erroneous := slices.ContainsFunc(rests[:len(rests)-1], func(r Rest) bool { return !r.Ready })
	switch {
	case last.Rejected != "":
		return Restore, []string{"the API server rejects the way back: " + last.Rejected}
	case !last.Ready && erroneous:
		return Corrected, append([]string{"the object is not ready with a correct spec"},
			differences(first.State, last.State, e.volatile)...)
	}
	return Restore, differences(first.State, last.State, e.volatile)
}

// shrink returns the finding for the shortest sequence that still leads to it. It removes the
// crash, then one change after another.
func (e *Explorer) shrink(ctx context.Context, on System, f Counterexample) (Counterexample, error) {
	shortest := f
	if f.Oracle == Differential || f.Oracle == Rejected {
		shortest.Sequence.Changes = slices.Clone(f.Sequence.Changes[:f.after])
	}
	try := func(s Sequence) (bool, error) {
		again, err := e.run(ctx, on, s)
		if errors.Is(err, ErrNoFault) {
			return false, nil
		}
		i := slices.IndexFunc(again, func(g Counterexample) bool { return g.Oracle == f.Oracle && g.after == len(s.Changes) })
		if i >= 0 {
			shortest = again[i]
			shortest.Repeated = true
		}
		return i >= 0, err
	}
	if shortest.Sequence.Crash {
		if _, err := try(Sequence{Changes: shortest.Sequence.Changes}); err != nil {
			return shortest, err
		}
	}
	// The change that a finding is about stays; for the way back it may be any.
	for i := 0; i < len(shortest.Sequence.Changes) && len(shortest.Sequence.Changes) > 1; {
		about := f.Oracle == Differential || f.Oracle == Rejected
		if about && i == len(shortest.Sequence.Changes)-1 {
			break
		}
		fewer := slices.Delete(slices.Clone(shortest.Sequence.Changes), i, i+1)
		removed, err := try(Sequence{Changes: fewer, Crash: shortest.Sequence.Crash})
		if err != nil {
			return shortest, err
		}
		if !removed {
			i++
		}
	}
	if !shortest.Repeated {
		if _, err := try(shortest.Sequence); err != nil {
			return shortest, err
		}
	}
	return shortest, nil
}

func (e *Explorer) note(c Change, r Rest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcome == nil {
		e.outcome = map[string]string{}
	}
	switch {
	case r.Rejected != "":
		e.outcome[c.ID()] = "rejected"
	case r.Ready:
		e.outcome[c.ID()] = "ready"
	default:
		e.outcome[c.ID()] = "not ready"
	}
}

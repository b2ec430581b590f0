// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// LeaderOnlyCalls compares the time of each external call with the Lease.
var LeaderOnlyCalls = Invariant{
	Name: "leader-only-calls",
	Bug:  "https://github.com/aws-controllers-k8s/community/issues/2944",
	// No fence protects an external system, so each call is judged.
	inHostile: true,
	Promise:   "a replica that takes part in the election calls external systems only while it holds the Lease",
	needs:     []history.Source{history.External, history.Audit, history.Processes},
	judge:     judgeExternalByLeader,
}

// transit bounds the time from a call's sender to the proxy. A call that arrives so soon after a
// change of the Lease may have been sent before.
const transit = 250 * time.Millisecond

func judgeExternalByLeader(b *judgement) {
	terms := b.History.Terms(b.Contract.Lease)
	if len(terms) == 0 {
		b.addDoubt("no version of the Lease %s/%s was recorded", b.Contract.Lease.Namespace, b.Contract.Lease.Name)
		return
	}
	for _, call := range b.History.Calls {
		b.checked++
		b.judgeCaller(terms, call)
	}
}

// judgeCaller tests whether the caller held the Lease when it sent the call. Later changes of the
// Lease do not count, because a call cannot be cancelled.
func (b *judgement) judgeCaller(terms []history.Term, call history.Call) {
	if call.Replica == "" {
		b.addDoubt("%s: its process is unknown", call)
		return
	}
	arrived := b.heldBy(terms, b.History.Neighbours(call.Began, call.Began), call)
	sent := b.heldBy(terms, b.History.Neighbours(call.Began.Add(-transit), call.Began), call)
	switch {
	case len(arrived.holders) == 0:
		b.addDoubt("%s: the holder of the Lease at that time was not recorded", call)
	case arrived.caller && !arrived.former && !arrived.others:
		if last := b.renewedBefore(call.Began); last != nil && call.Began.Sub(last.At) > lasting(last)+transit {
			b.addViolation("%s: the last renewal of the Lease was %s (%s before), and its duration is %s",
				call, last.When(), call.Began.Sub(last.At).Round(time.Millisecond), lasting(last)).call(call).
				revision(last.RevisionRange)
		}
	case sent.caller:
		b.addDoubt("%s: the holder of the Lease changed about that time, between %s", call, names(sent.holders))
	case b.overtaken(call.Replica, call.Began):
	case arrived.former:
		b.addViolation("%s: an earlier process of that replica held the Lease", call).call(call)
	default:
		b.addViolation("%s: at that time %s held the Lease", call, names(arrived.holders)).call(call)
	}
}

// heldDuring are those that may have held the Lease in a span.
type heldDuring struct {
	holders []string // replicas, each once
	caller  bool     // the process that made the call is among them
	former  bool     // an earlier process of its replica is
	others  bool     // anybody else is
}

func (b *judgement) heldBy(terms []history.Term, s history.RevisionRange, call history.Call) (found heldDuring) {
	began := b.startOf(call.Replica, call.Began)
	for i, t := range terms {
		ended := i+1 < len(terms) && terms[i+1].Before(s)
		switch {
		case ended || s.Before(t.RevisionRange):
			continue
		case t.Holder != call.Replica:
			found.others = true
		case !t.At.IsZero() && t.At.Before(began):
			found.former = true
		default:
			found.caller = true
		}
		if !slices.Contains(found.holders, t.Holder) {
			found.holders = append(found.holders, t.Holder)
		}
	}
	return found
}

// startOf is when the process of a replica at a time started; zero if it is not known.
func (b *judgement) startOf(replica string, at time.Time) time.Time {
	if process := b.processAt(at, func(name string) bool { return name == replica }); process != nil {
		return process.Started
	}
	return time.Time{}
}

// processAt is the last process of a name that started by a time; nil if there is none.
func (b *judgement) processAt(at time.Time, is func(name string) bool) (last *history.Process) {
	for i := range b.History.Replicas {
		r := &b.History.Replicas[i]
		if is(r.Name) && !r.Started.After(at) && (last == nil || r.Started.After(last.Started)) {
			last = r
		}
	}
	return last
}

// renewedBefore returns the last version of the Lease that may have been stored before a time; nil
// if there is none with a known time.
func (b *judgement) renewedBefore(at time.Time) *history.Version {
	var last *history.Version
	for i := range b.History.Versions {
		v := &b.History.Versions[i]
		if v.Key == b.Contract.Lease && !v.Gone && !v.At.IsZero() && v.At.Before(at.Add(transit)) &&
			(last == nil || v.At.After(last.At)) {
			last = v
		}
	}
	if last == nil || lasting(last) == 0 {
		return nil
	}
	return last
}

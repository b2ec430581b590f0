// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// CleanShutdown checks replicas that received SIGTERM.
var CleanShutdown = Invariant{
	Name:    "clean-shutdown",
	Bug:     "https://github.com/kubernetes/kubernetes/pull/139991",
	Promise: "a replica stops in time, and releases the Lease after its last write",
	needs:   []history.Source{history.Processes, history.Audit},
	judge:   judgeShutdown,
}

func judgeShutdown(b *judgement) {
	terms := b.History.Terms(b.Contract.Lease)
	for _, replica := range b.History.Replicas {
		if replica.Asked.IsZero() || replica.Killed {
			continue
		}
		b.checked++
		grace := b.Contract.Limits.Grace.Duration
		switch took := replica.Ended.Sub(replica.Asked); {
		case replica.Ended.IsZero():
			b.addViolation("replica %s received SIGTERM at %s and still ran at the end", replica.Name,
				replica.Asked.Format(time.StampMilli))
		case grace > 0 && took > grace:
			b.addViolation("replica %s took %s to stop: the limit is %s", replica.Name, took.Round(time.Millisecond), grace)
		case replica.Exit == signalled && !b.hasBegun(replica):
			// The signal ended it before it had a handler.
		case replica.Exit != 0:
			b.addViolation("replica %s received SIGTERM and ended with exit code %d", replica.Name, replica.Exit)
		}
		b.judgeHandover(replica, terms)
	}
}

// signalled is the exit code of a process that a signal has ended.
const signalled = -1

// hasBegun reports whether a process has written anything or taken part in the election. Before,
// nothing is left to finish or to release.
func (b *judgement) hasBegun(replica history.Process) bool {
	return slices.ContainsFunc(b.History.Requests, func(r history.Request) bool {
		return r.Replica == replica.Name && !r.Received.Before(replica.Started) && !r.Received.After(replica.Ended) &&
			(r.Write() || r.Resource == b.Contract.Lease.Resource)
	})
}

// judgeHandover looks at what a replica still wrote after it had given the Lease away.
func (b *judgement) judgeHandover(replica history.Process, terms []history.Term) {
	i := -1
	for n, t := range terms {
		// The last of its terms, in case it has led more than once.
		if t.Holder == replica.Name {
			i = n
		}
	}
	if i < 0 || i+1 == len(terms) {
		return // it never led, or kept the Lease to the end
	}
	lost := terms[i+1]
	for _, r := range b.History.Requests {
		if r.Replica != replica.Name || b.electing(r) || !r.Done() {
			continue
		}
		switch {
		case lost.Before(r.RevisionRange):
			b.addViolation("%s: replica %s had released the Lease at %s", r, replica.Name, lost.RevisionRange).request(r).
				revision(lost.RevisionRange)
		case !r.Before(lost.RevisionRange):
			b.addDoubt("%s: the history does not show whether the Lease was released before, at %s", r, lost.RevisionRange)
		}
	}
}

package invariant

import (
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// PromptTakeover checks that a Lease that is not renewed gets another holder.
var PromptTakeover = Invariant{
	Name:      "prompt-takeover",
	Bug:       "https://github.com/spring-cloud/spring-cloud-kubernetes/issues/206",
	inHostile: true,
	Promise: "a replica that reads another's Lease, and sees no renewal for a lease term, takes the Lease within " +
		"the limit `takeover`",
	judge: judgeTakeover,
}

func judgeTakeover(b *judgement) {
	if !b.hasSource(history.Audit) {
		return
	}
	if b.Contract.Limits.Takeover.Duration == 0 {
		b.addDoubt("the operator has no limit for takeovers of an expired Lease")
		return
	}
	terms := b.History.Terms(b.Contract.Lease)
	reads := b.leaseReads()
	for i := range b.History.Versions {
		v := &b.History.Versions[i]
		if v.Key != b.Contract.Lease || v.Gone || v.At.IsZero() || v.HolderIdentity() == "" || lasting(v) == 0 {
			continue
		}
		holders, replaced := history.HeldDuring(terms, v.RevisionRange), b.replacedAt(v)
		for _, process := range reads {
			if !slices.Contains(holders, process.replica) {
				b.judgeLeft(v, replaced, process)
			}
		}
	}
}

// reader is a process that read the Lease.
type reader struct {
	replica string
	started time.Time
	reads   []history.Request
}

// leaseReads returns the answered reads of the Lease, by process. It omits watches, whose initial
// version is not recorded.
func (b *judgement) leaseReads() []reader {
	var all []reader
	for _, r := range b.History.Requests {
		if !b.ours(r) || r.Key != b.Contract.Lease || r.Replica == "" || r.Code >= 300 ||
			!slices.Contains([]string{"get", "list"}, r.Verb) {
			continue
		}
		started := b.startOf(r.Replica, r.Received)
		i := slices.IndexFunc(all, func(p reader) bool { return p.replica == r.Replica && p.started.Equal(started) })
		if i < 0 {
			i = len(all)
			all = append(all, reader{replica: r.Replica, started: started})
		}
		all[i].reads = append(all[i].reads, r)
	}
	for _, p := range all {
		slices.SortFunc(p.reads, func(x, y history.Request) int { return x.Received.Compare(y.Received) })
	}
	return all
}

// replacedAt is when the version of the Lease after v was requested at the latest; zero: never.
func (b *judgement) replacedAt(v *history.Version) (at time.Time) {
	for i := range b.History.Versions {
		next := &b.History.Versions[i]
		if next.Key == v.Key && v.Before(next.RevisionRange) && next.RevisionRange != v.RevisionRange &&
			(at.IsZero() || next.At.Before(at)) {
			at = next.At
		}
	}
	return at
}

// judgeLeft judges how long a process reads one version. Its own watch may have shown it that
// version before the first read.
func (b *judgement) judgeLeft(v *history.Version, replaced time.Time, p reader) {
	var known, expired time.Time
	limit := b.Contract.Limits.Takeover.Duration
	for _, r := range p.reads {
		switch {
		case r.Received.Before(v.At):
		case !replaced.IsZero() && !r.Received.Before(replaced):
			return
		case known.IsZero():
			known = r.Answered
		case r.Received.Sub(known) < lasting(v):
		case expired.IsZero():
			b.checked++
			expired = r.Answered
		case r.Received.Sub(expired) > limit:
			b.addViolation("replica %s read the Lease for %s without a renewal: %s holds it at %s, its duration is %s, and no replica took it in %s",
				p.replica, r.Received.Sub(known).Round(time.Millisecond), v.HolderIdentity(), v.RevisionRange, lasting(v), limit).
				revision(v.RevisionRange)
			return
		}
	}
}

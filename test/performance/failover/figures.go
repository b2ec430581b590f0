package failover

import (
	"fmt"
	"time"

	"leasehold.dev/test/harness/figures"
)

const (
	// answering is what a request may take at the beginning and the end of what is
	// bounded, and a process to end.
	answering = 300 * time.Millisecond
	// expiry is the goal for a takeover without evidence, over the Lease's duration.
	expiry   = 1.02
	peerNote = "the peer: the same operator with the election of controller-runtime as it is by itself"
)

// section is all that was found so far.
func (m *measurement) section() figures.Section {
	s := figures.Section{ID: "failover", Title: "Losing the leader", Text: m.text()}
	for _, g := range m.groups {
		s.Figures = append(s.Figures, g.figures(m.plan.setting)...)
	}
	return s
}

// figures are those of one subject, in the order of their IDs' first part.
func (g *group) figures(with setting) []figures.Figure {
	all := []figures.Figure{g.killed(), g.expired(pause, with), g.expired(cut, with)}
	all = append(all, g.stopped()...)
	for _, w := range ways {
		all = append(all, g.zombies(w))
	}
	all = append(all, g.gaveUpLease(with), g.woken())
	return append(append(all, g.requests()...), g.gaveUp())
}

// figure has its ID and title, and the peer no goal.
func (g *group) figure(id, title, unit string, runs []float64, goal *figures.Goal, note string) figures.Figure {
	f := figures.Figure{
		ID: id + g.subject.suffix, Title: title, Unit: unit, Runs: runs, Goal: goal, Note: note,
	}
	if g.subject.suffix != "" {
		f.Title, f.Goal, f.Note = f.Title+", the peer", nil, peerNote
	}
	return f
}

// of takes a figure from each trial of a way.
func (g *group) of(w way, value func(handover) float64) []float64 {
	var runs []float64
	for _, h := range g.handovers[w] {
		runs = append(runs, value(h))
	}
	return runs
}

// between takes the time from one moment to another of each trial of a way, in ms. A trial
// without one of them has no part in it.
func (g *group) between(w way, from, to func(handover) time.Time) []float64 {
	var runs []float64
	for _, h := range g.handovers[w] {
		if begin, end := from(h), to(h); !begin.IsZero() && !end.IsZero() {
			runs = append(runs, milliseconds(end.Sub(begin)))
		}
	}
	return runs
}

func last(h handover) time.Time     { return h.last }
func released(h handover) time.Time { return h.released }
func reported(h handover) time.Time { return h.reported }
func acquired(h handover) time.Time { return h.acquired }
func first(h handover) time.Time    { return h.first }
func woken(h handover) time.Time    { return h.woken }
func ended(h handover) time.Time    { return h.ended }

func (g *group) killed() figures.Figure {
	return g.figure("F1.kill", "from the report that a killed leader's container has ended to the next leader's first write", "ms",
		g.between(kill, reported, first), figures.AtMost(300), "the harness writes the status of the Pod, as a kubelet does")
}

func (g *group) expired(w way, with setting) figures.Figure {
	return g.figure("F1."+string(w),
		"from the loss by "+string(w)+" to the next leader's first write, over the Lease's duration", "",
		g.of(w, func(h handover) float64 { return h.first.Sub(h.at).Seconds() / with.lease.Seconds() }),
		figures.AtMost(expiry),
		"there is no evidence, so the Lease has to expire; the last renewal is up to a retry period before the loss")
}

// handed bounds the milliseconds of a takeover after SIGTERM: a quarter of the retry period that
// ships, so none waits for a retry. It is more than what the next leader needs, as the replicas of
// both subjects share the machine.
const handed = 500

// stopped is the time of a takeover after SIGTERM, and its parts. The peer does not release the
// Lease, so it has no parts.
func (g *group) stopped() []figures.Figure {
	const title = "from the last write of a leader that gets SIGTERM to the next one's first"
	runs := g.between(stop, last, first)
	all := []figures.Figure{g.figure("F2.stop", title, "ms", runs, figures.AtMost(handed), "")}
	if g.subject.suffix != "" {
		return all
	}
	return append(all,
		g.figure("F2.leave", "of that, from the last write to the return of the Lease", "ms",
			g.between(stop, last, released), nil, ""),
		g.figure("F2.release", "of that, from the return of the Lease to its next holder", "ms",
			g.between(stop, released, acquired), nil, ""),
		g.figure("F2.begin", "of that, from the election of the next leader to its first write", "ms",
			g.between(stop, acquired, first), nil, ""),
	)
}

func (g *group) zombies(w way) figures.Figure {
	undecided := 0
	for _, h := range g.handovers[w] {
		undecided += h.undecided
	}
	return g.figure("F3."+string(w), "writes accepted from who does not lead, loss by "+string(w), "",
		g.of(w, func(h handover) float64 { return float64(h.strays) }), figures.Exactly(0),
		fmt.Sprintf("by the version of the store at which each write was stored; of %d that cannot be told", undecided))
}

func (g *group) gaveUpLease(with setting) figures.Figure {
	longest := (with.renew + with.retry + answering).Seconds() / with.lease.Seconds()
	return g.figure("F4.cut", "from the last renewal of a leader that is cut off to the end of its process, over the Lease's duration", "",
		g.of(cut, func(h handover) float64 { return h.ended.Sub(h.renewed).Seconds() / with.lease.Seconds() }),
		figures.AtMost(longest),
		"it ends one renew deadline after a retry period; at 1 the next one may lead")
}

func (g *group) woken() figures.Figure {
	return g.figure("F4.pause", "from when a leader that was paused goes on to the end of its process", "ms",
		g.between(pause, woken, ended), figures.AtMost(milliseconds(exitWithin)), "")
}

func (g *group) requests() []figures.Figure {
	var leader, standby []float64
	for _, r := range g.rates {
		leader, standby = append(leader, r.leader), append(standby, r.standby)
	}
	return []figures.Figure{
		g.figure("F6.leader", "requests by the election of the leader in a retry period", "", leader, figures.AtMost(1.05),
			"without other work"),
		g.figure("F6.standby", "requests by the election of the standby in a retry period", "", standby, figures.Exactly(0),
			"it watches the Lease"),
	}
}

func (g *group) gaveUp() figures.Figure {
	var runs []float64
	for _, p := range g.pairs {
		runs = append(runs, float64(p.gaveUp))
	}
	return g.figure("F7", "replicas that ended though nothing was done to them, on each control plane", "", runs,
		figures.Exactly(0),
		"in the whole measurement; the trial is begun again then")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m *measurement) text() string {
	with := m.plan.setting
	return fmt.Sprintf(`Two replicas as processes on a control plane of their own, each behind a proxy, with %d Tenants;
Lease %s, renew deadline %s, retry period %s. Every %s another client takes the subjects out of a binding that the
operator has made, every %s while a leader is sent SIGTERM; the new leader puts them back with one write. The leader
is lost %d times in each way, in an order of chance, in rounds of one trial on each of %d control planes, ours and the
peer's; what was lost is started again between the rounds. **kill** is SIGKILL, **stop** SIGTERM, **pause** SIGSTOP
until another one has written and then SIGCONT, **cut** a proxy that no longer answers. The moment of the loss is this
program's, all others are of the API server's audit log, on the same machine by the same clock. Who led at a write is
judged by the versions at which the write and the Lease were stored. The peer is the same operator with what
controller-runtime does by itself: client-go's lock alone, no release at the stop, no warm-up, and no fence. Its
readiness and its webhooks read the caches, so those are filled too before it leads; its queues are not.`,
		m.plan.tenants, with.lease, with.renew, with.retry, pace, hurry, m.plan.trials, 2*m.plan.pairs)
}

package main

import (
	"fmt"
	"time"

	"leasehold.dev/test/performance/figures"
)

const (
	// answering is what a request may take at the beginning and the end of what is
	// bounded, and a process to end.
	answering = 300 * time.Millisecond
	// exitWithin is how many milliseconds a leader that wakes after its term may take to end.
	exitWithin = 100
	// expiry is the goal for a takeover without evidence, over the Lease's duration.
	expiry = 1.02
	// handed bounds the milliseconds of a takeover after SIGTERM: a quarter of the retry period that
	// ships, so none waits for a retry. It is more than what the next leader needs, as the replicas of
	// both subjects share the machine.
	handed   = 500
	peerNote = "the peer: the same operator with the election of controller-runtime as it is by itself"
)

// figures are those of one subject. The peer does not release the Lease, so it has no parts of F2.stop.
func (g *group) figures(with setting) []figures.Figure {
	ms := time.Millisecond
	all := []figures.Figure{
		g.figure("F1.kill", "from the report that a killed leader's container has ended to the next leader's first write", "ms",
			g.between(kill, ms, reported, first), figures.AtMost(300), "the harness writes the status of the Pod, as a kubelet does"),
	}
	for _, w := range []way{pause, cut} {
		all = append(all, g.figure("F1."+string(w),
			"from the loss by "+string(w)+" to the next leader's first write, over the Lease's duration", "",
			g.between(w, with.lease, lost, first), figures.AtMost(expiry),
			"there is no evidence, so the Lease has to expire; the last renewal is up to a retry period before the loss"))
	}
	all = append(all, g.figure("F2.stop", "from the last write of a leader that gets SIGTERM to the next one's first", "ms",
		g.between(stop, ms, last, first), figures.AtMost(handed), ""))
	if g.suffix == "" {
		all = append(all,
			g.figure("F2.leave", "of that, from the last write to the return of the Lease", "ms",
				g.between(stop, ms, last, released), nil, ""),
			g.figure("F2.release", "of that, from the return of the Lease to its next holder", "ms",
				g.between(stop, ms, released, acquired), nil, ""),
			g.figure("F2.begin", "of that, from the election of the next leader to its first write", "ms",
				g.between(stop, ms, acquired, first), nil, ""))
	}
	for _, w := range ways {
		undecided := 0
		for _, h := range g.handovers[w] {
			undecided += h.undecided
		}
		all = append(all, g.figure("F3."+string(w), "writes accepted from a replica that does not lead, loss by "+string(w), "",
			of(g.handovers[w], func(h handover) float64 { return float64(h.strays) }), figures.Exactly(0),
			fmt.Sprintf("by the version of the store at which each write was stored; %d are undecided", undecided)))
	}
	longest := (with.renew + with.retry + answering).Seconds() / with.lease.Seconds()
	return append(all,
		g.figure("F4.cut", "from the last renewal of a leader that is cut off to the end of its process, over the Lease's duration", "",
			g.between(cut, with.lease, renewed, ended), figures.AtMost(longest),
			"it ends one renew deadline after a retry period; at 1 the next one may lead"),
		g.figure("F4.pause", "from when a leader that was paused goes on to the end of its process", "ms",
			g.between(pause, ms, woken, ended), figures.AtMost(exitWithin), ""),
		g.figure("F7", "replicas that ended though nothing was done to them, on each control plane", "",
			of(g.pairs, func(p *pair) float64 { return float64(p.gaveUp) }), figures.Exactly(0),
			"in the whole measurement; the trial is begun again then"))
}

// pauseFigures are those of a subject that calls an S3 server.
func (g *group) pauseFigures(setting) []figures.Figure {
	return []figures.Figure{
		g.figure("F8.calls", "S3 requests of a leader that was paused, after its term, in each pause", "",
			of(g.handovers[pause], func(h handover) float64 { return float64(h.calls) }), figures.Exactly(0),
			"of the process that led, by the owner of the connection; nothing but its guard rejects them"),
		g.figure("F8.exit", "from SIGCONT after the term to the end of the process", "ms",
			g.between(pause, time.Millisecond, woken, ended), figures.AtMost(exitWithin), ""),
	}
}

// figure has its ID and title, and the peer no goal.
func (g *group) figure(id, title, unit string, runs []float64, goal *figures.Goal, note string) figures.Figure {
	f := figures.Figure{ID: id + g.suffix, Title: title, Unit: unit, Runs: runs, Goal: goal, Note: note}
	if g.suffix != "" {
		f.Title, f.Goal, f.Note = f.Title+", the peer", nil, peerNote
	}
	return f
}

// between takes the time from one moment to another of each trial of a way, in a unit. A trial
// without one of them has no part in it.
func (g *group) between(w way, unit time.Duration, from, to func(handover) time.Time) (runs []float64) {
	for _, h := range g.handovers[w] {
		if begin, end := from(h), to(h); !begin.IsZero() && !end.IsZero() {
			runs = append(runs, float64(end.Sub(begin))/float64(unit))
		}
	}
	return runs
}

func lost(h handover) time.Time     { return h.at }
func renewed(h handover) time.Time  { return h.renewed }
func last(h handover) time.Time     { return h.last }
func released(h handover) time.Time { return h.released }
func reported(h handover) time.Time { return h.reported }
func acquired(h handover) time.Time { return h.acquired }
func first(h handover) time.Time    { return h.first }
func woken(h handover) time.Time    { return h.woken }
func ended(h handover) time.Time    { return h.ended }

func failoverText(with plan) string {
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
		with.tenants, with.lease, with.renew, with.retry, pace, hurry, with.trials, 2*with.pairs)
}

func pausesText(plan) string {
	return fmt.Sprintf(`Two replicas as processes, with %d StorageBuckets that are probed every %d s at an S3
server whose answers take %s. The leader gets SIGSTOP while at least %d requests are under way, and SIGCONT when
another replica has written. A proxy before the S3 server records the time of each request and which process sent
it. The term ended one Lease after the last renewal that the API server accepted. The peer, with the election of
controller-runtime, has no guard.`, observed, probePeriod, latency, busy)
}

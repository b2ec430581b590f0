package failover

import (
	"fmt"
	"slices"
	"time"

	"leasehold.dev/test/harness/figures"
)

const (
	// answering is what a request may take at the beginning and the end of what is
	// bounded, and a process to end.
	answering = 300 * time.Millisecond
	peerNote  = "the peer: the same operator with the election of controller-runtime as it is by itself"
)

// section is all that was found so far.
func (m *bench) section() figures.Section {
	s := figures.Section{ID: "failover", Title: "Losing the leader", Text: m.text()}
	for _, g := range m.groups {
		s.Figures = append(s.Figures, g.figures(m.plan)...)
	}
	for _, with := range m.plan.settings {
		s.Plots = append(s.Plots, m.plot(with))
	}
	return s
}

// figures are those of one subject with one setting, in the order of their IDs'
// first part.
func (g *group) figures(p plan) []figures.Figure {
	var all []figures.Figure
	for _, w := range ways {
		if w.expires() {
			all = append(all, g.crash(w))
		}
	}
	all = append(all, g.graceful(), g.release())
	for _, w := range ways {
		all = append(all, g.zombies(w))
	}
	all = append(all, g.refused(), g.fenced(), g.woken(), g.warm(), g.early(), g.rate(p), g.gaveUp())
	return all
}

// figure has its ID and title, and the peer no goal.
func (g *group) figure(id, title, unit string, runs []float64, goal *figures.Goal, note string) figures.Figure {
	f := figures.Figure{
		ID: fmt.Sprintf("%s.%s%s", id, g.setting.name, g.subject.suffix), Title: fmt.Sprintf("%s, %s settings", title, g.setting.name),
		Unit: unit, Runs: runs, Goal: goal, Note: note,
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

func (g *group) crash(w way) figures.Figure {
	lease := g.setting.lease.Seconds()
	longest := g.setting.lease + 2*g.setting.poll() + answering
	return g.figure("F1."+string(w), "from the loss by "+string(w)+" to the next leader's first write, over the Lease's duration", "",
		g.of(w, func(h handover) float64 { return h.first.Sub(h.at).Seconds() / lease }), figures.AtMost(longest.Seconds()/lease),
		fmt.Sprintf("the standby polls: it sees a renewal up to 2.2 retry periods late, and its end likewise, so the bound is %s; "+
			"who watches the Lease could do it in 1.02", longest))
}

func (g *group) graceful() figures.Figure {
	longest := g.setting.poll() + answering
	return g.figure("F2.stop", "from the last write of a leader that is asked to stop to the next one's first", "ms",
		g.of(stop, func(h handover) float64 { return milliseconds(h.first.Sub(h.last)) }), figures.AtMost(milliseconds(longest)),
		"the standby polls, and sees that the Lease was given back up to 2.2 retry periods later; who watches it could do it in 50 ms")
}

func (g *group) release() figures.Figure {
	var runs []float64
	for _, h := range g.handovers[stop] {
		if !h.released.IsZero() {
			runs = append(runs, milliseconds(h.acquired.Sub(h.released)))
		}
	}
	f := g.figure("F2.release", "of that, from the return of the Lease to its next holder", "ms", runs, nil, "")
	if g.subject.suffix != "" {
		f.Note = peerNote + ", which does not give the Lease back"
	}
	return f
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

func (g *group) refused() figures.Figure {
	return g.figure("F3.refused.pause", "writes of a leader that was paused that the fence refused", "",
		g.of(pause, func(h handover) float64 { return float64(h.refused) }), nil, "without the fence they would be among those above, as far as nobody was faster")
}

func (g *group) fenced() figures.Figure {
	longest := (g.setting.renew + g.setting.retry + answering).Seconds() / g.setting.lease.Seconds()
	return g.figure("F4.cut", "from the last renewal of a leader that is cut off to the end of its process, over the Lease's duration", "",
		g.of(cut, func(h handover) float64 { return h.ended.Sub(h.renewed).Seconds() / g.setting.lease.Seconds() }), figures.AtMost(longest),
		"it ends one renew deadline after a retry period; at 1 the next one may lead")
}

func (g *group) woken() figures.Figure {
	return g.figure("F4.pause", "from when a leader that was paused goes on to the end of its process", "s",
		g.of(pause, func(h handover) float64 { return h.ended.Sub(h.woken).Seconds() }), figures.AtMost((g.setting.renew + answering).Seconds()),
		"it tries to renew for one renew deadline before it knows; the fence refuses what it writes meanwhile")
}

func (g *group) warm() figures.Figure {
	return g.figure("F5.kill", "from the Lease's change of hands to the next leader's first write", "ms",
		g.of(kill, func(h handover) float64 { return milliseconds(h.first.Sub(h.acquired)) }), nil,
		"until the API server has accepted it, with all pairs on the same cores; with the machine to itself it is F5 of `scale`, which has a goal")
}

func (g *group) early() figures.Figure {
	return g.figure("F5.refused", "writes of the next leader that the fence refused before it let one through", "",
		g.of(kill, func(h handover) float64 { return float64(h.early) }), nil, "each is tried again 200 ms later")
}

func (g *group) rate(p plan) figures.Figure {
	// Neither asks twice in a retry period; one request more of each can be at the edges.
	most := 2 + 2*g.setting.retry.Seconds()/p.idle.Seconds()
	return g.figure("F6", "requests by the elections of two replicas in a retry period", "", slices.Clone(g.rates), figures.AtMost(most),
		fmt.Sprintf("in %s without work; the leader renews once, the standby looks every 1 to 2.2 periods, so 1.63 is expected; who watches could do with 1.05", p.idle))
}

func (g *group) gaveUp() figures.Figure {
	var runs []float64
	for _, p := range g.pairs {
		runs = append(runs, float64(p.gaveUp))
	}
	return g.figure("F7", "replicas that ended though nothing was done to them, on each control plane", "", runs, figures.Exactly(0),
		"in the whole measurement, in which all control planes share the machine; the trial is begun again then")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// plot shows the distributions: of how many trials the next leader worked by then.
func (m *bench) plot(with setting) figures.Plot {
	p := figures.Plot{
		Name: "failover-" + with.name, XLabel: "seconds since the loss of the leader", YLabel: "share of the trials in which another one works",
		Title: fmt.Sprintf("Losing the leader: Lease %s, renew deadline %s, retry period %s", with.lease, with.renew, with.retry),
	}
	for _, g := range m.groups {
		if g.setting.name != with.name {
			continue
		}
		for _, w := range ways {
			points := distribution(g.of(w, func(h handover) float64 { return h.first.Sub(h.at).Seconds() }))
			if len(points) > 0 {
				p.Series = append(p.Series, figures.Series{Name: fmt.Sprintf("%s, %s", w, g.subject.name), Points: points, Line: true})
			}
		}
	}
	return p
}

// distribution are the steps of an empirical distribution.
func distribution(values []float64) []figures.Point {
	var points []figures.Point
	for i, v := range slices.Sorted(slices.Values(values)) {
		n := float64(len(values))
		points = append(points, figures.Point{X: v, Y: float64(i) / n}, figures.Point{X: v, Y: float64(i+1) / n})
	}
	return points
}

func (m *bench) text() string {
	return fmt.Sprintf(`Two replicas as processes on a control plane of their own, each behind a proxy, with %d Tenants. Every %s somebody takes
the subjects out of a binding that the operator has made, every %s while a leader is asked to stop; who leads puts them back with one
write. The leader is lost %d times in each way, in an order of chance, ours and the peer's side by side at the same time: **kill** is
SIGKILL, **stop** SIGTERM, **pause** SIGSTOP until another one has written and then SIGCONT, **cut** a proxy that answers nothing any more.
The moment of the loss is this program's, all others are of the API server's audit log, on the same machine by the same clock. Who led at a
write is judged by the versions at which the write and the Lease were stored. The peer is the same operator with what controller-runtime
does by itself: client-go's lock alone, no release at the stop, no warm-up, and no fence. Its readiness and its webhooks read the
caches, so those are filled too before it leads; its queues are not.`, m.plan.tenants, pace, hurry, m.plan.trials)
}

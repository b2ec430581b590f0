// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const peerNote = "the peer: the same operator with the election of controller-runtime unchanged"

// described has all figures without their runs.
//
//go:embed figures.yaml
var described string

// describe returns the figures of these runs in the order of figures.yaml. n is the number of Tenants.
func describe(n int, runs map[string][]float64) (list []figure) {
	var all []figure
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(described, "{n}", strconv.Itoa(n))), &all); err != nil {
		panic(fmt.Errorf("reading figures.yaml: %w", err))
	}
	for _, f := range all {
		if of, found := runs[f.ID]; found {
			f.Runs = of
			list = append(list, f)
		}
	}
	if len(list) < len(runs) {
		panic(fmt.Sprintf("figures.yaml describes %d of %d figures", len(list), len(runs)))
	}
	return list
}

// figures returns those of one subject. The peer does not release the Lease, so it has no parts of F2.stop.
func (g *group) figures(with setting) []figure {
	ms := time.Millisecond
	runs := map[string][]float64{
		"F1.kill":  g.between(kill, ms, func(h handover) span { return span{h.reported, h.first} }),
		"F1.pause": g.between(pause, with.lease, func(h handover) span { return span{h.at, h.first} }),
		"F1.cut":   g.between(cut, with.lease, func(h handover) span { return span{h.at, h.first} }),
		"F2.stop":  g.between(stop, ms, func(h handover) span { return span{h.last, h.first} }),
		"F4.cut":   g.between(cut, with.lease, func(h handover) span { return span{h.renewed, h.ended} }),
		"F4.pause": g.between(pause, ms, func(h handover) span { return span{h.woken, h.ended} }),
		"F7":       of(g.pairs, func(p *pair) float64 { return float64(p.gaveUp) }),
	}
	if g.suffix == "" {
		runs["F2.leave"] = g.between(stop, ms, func(h handover) span { return span{h.last, h.released} })
		runs["F2.release"] = g.between(stop, ms, func(h handover) span { return span{h.released, h.acquired} })
		runs["F2.begin"] = g.between(stop, ms, func(h handover) span { return span{h.acquired, h.first} })
	}
	for _, w := range ways {
		runs["F3."+string(w)] = of(g.handovers[w], func(h handover) float64 { return float64(h.strays) })
		runs["F3.undecided"] = append(runs["F3.undecided"],
			of(g.handovers[w], func(h handover) float64 { return float64(h.undecided) })...)
	}
	return g.describe(runs)
}

// pauseFigures returns those of a subject that calls an S3 server.
func (g *group) pauseFigures(setting) []figure {
	return g.describe(map[string][]float64{
		"F8.calls": of(g.handovers[pause], func(h handover) float64 { return float64(h.calls) }),
		"F8.exit":  g.between(pause, time.Millisecond, func(h handover) span { return span{h.woken, h.ended} }),
	})
}

// describe returns the figures of a subject. The peer has no goals.
func (g *group) describe(runs map[string][]float64) []figure {
	list := describe(0, runs)
	for i := range list {
		if f := &list[i]; g.suffix != "" {
			f.ID, f.Title, f.Goal, f.Note = f.ID+g.suffix, f.Title+", the peer", nil, peerNote
		}
	}
	return list
}

// span is the beginning and the end of a duration.
type span [2]time.Time

// between returns the durations of a way's trials in a unit. It omits trials that lack one of the two times.
func (g *group) between(w way, unit time.Duration, of func(handover) span) (runs []float64) {
	for _, h := range g.handovers[w] {
		if s := of(h); !s[0].IsZero() && !s[1].IsZero() {
			runs = append(runs, float64(s[1].Sub(s[0]))/float64(unit))
		}
	}
	return runs
}

// failoverFormat and pausesFormat describe the measurement.
var (
	//go:embed failover.md
	failoverFormat string
	//go:embed pauses.md
	pausesFormat string
)

func failoverText(with plan) string {
	return fmt.Sprintf(failoverFormat,
		with.tenants, with.lease, with.renew, with.retry, pace, hurry, with.trials, 2*with.pairs)
}

func pausesText(plan) string { return fmt.Sprintf(pausesFormat, observed, probePeriod, latency, busy) }

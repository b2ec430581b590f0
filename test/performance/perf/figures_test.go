// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/internal/tree"
)

func TestLossesHaveEachWayEquallyOften(t *testing.T) {
	g := NewWithT(t)
	all := fullPlan.losses(20, rand.New(rand.NewPCG(1, 2)))
	count := map[way]int{}
	for _, w := range all {
		count[w]++
	}
	g.Expect(count).To(Equal(map[way]int{kill: 20, stop: 20, pause: 20, cut: 20}))
	g.Expect(all).NotTo(Equal(fullPlan.losses(20, rand.New(rand.NewPCG(3, 4)))), "the order is one of chance")
}

func TestFigures(t *testing.T) {
	killed := handover{loss: loss{at: at(0), ended: at(1)}, renewed: at(-1000), last: at(-50), reported: at(10),
		acquired: at(60), first: at(75)}
	late := handover{loss: loss{at: at(0), ended: at(1)}, renewed: at(-1000), last: at(-50), reported: at(10),
		acquired: at(300), first: at(311)}
	stopped := handover{loss: loss{at: at(0), ended: at(2200)}, last: at(2100), released: at(2150), acquired: at(2160),
		first: at(2170)}
	slow := stopped
	slow.first = at(2601)
	paused := handover{loss: loss{at: at(0), woken: at(20000), ended: at(20090)}, acquired: at(14990),
		first: at(15000), strays: 3}
	severed := handover{loss: loss{at: at(0), ended: at(10500)}, renewed: at(-1500), acquired: at(16490), first: at(16500)}
	ours := &group{name: "ours", pairs: []*pair{{gaveUp: 1}},
		handovers: map[way][]handover{kill: {killed, late}, stop: {stopped, slow},
			pause: {paused, {loss: loss{ended: at(1), at: at(0)}, first: at(15000)}}, cut: {severed}}}
	want := map[string]struct {
		runs    []float64
		verdict verdict
	}{
		"F1.kill":      {[]float64{65, 301}, missed},
		"F1.pause":     {[]float64{1, 1}, met},
		"F1.cut":       {[]float64{1.1}, missed},
		"F2.stop":      {[]float64{70, 501}, missed},
		"F2.leave":     {[]float64{50, 50}, reported},
		"F2.release":   {[]float64{10, 10}, reported},
		"F2.begin":     {[]float64{10, 441}, reported},
		"F3.kill":      {[]float64{0, 0}, met},
		"F3.stop":      {[]float64{0, 0}, met},
		"F3.pause":     {[]float64{3, 0}, missed},
		"F3.cut":       {[]float64{0}, met},
		"F3.undecided": {[]float64{0, 0, 0, 0, 0, 0, 0}, reported},
		"F4.cut":       {[]float64{0.8}, met},
		"F4.pause":     {[]float64{90}, met},
		"F7":           {[]float64{1}, missed},
	}
	g := NewWithT(t)
	all := ours.figures(shipped)
	g.Expect(all).To(HaveLen(len(want)))
	for _, f := range all {
		g.Expect(want).To(HaveKey(f.ID))
		g.Expect(f.Runs).To(HaveLen(len(want[f.ID].runs)), f.ID)
		for i, run := range f.Runs {
			g.Expect(run).To(BeNumerically("~", want[f.ID].runs[i], 1e-9), f.ID)
		}
		g.Expect(f.verdict()).To(Equal(want[f.ID].verdict), f.ID)
	}
	peer := &group{name: "the peer", suffix: ".peer", handovers: ours.handovers}
	for _, f := range peer.figures(shipped) {
		g.Expect(f.ID).To(HaveSuffix(".peer"))
		g.Expect(f.Goal).To(BeNil(), "%s: there is no goal for it", f.ID)
	}
}

func TestFleet(t *testing.T) {
	g := NewWithT(t)
	r := fleet{n: 70, took: 10 * time.Second, spent: cost{answering: 30 * time.Second}, empty: footprint{heap: 1000},
		known: footprint{heap: 8000}}
	g.Expect(r.idle()).To(BeNumerically("~", 0.25, 1e-9), "four workers have 40 s")
	g.Expect(r.heapEach()).To(BeNumerically("~", 100, 1e-9))
}

// After a change of the election's lines that the peer's patch changes, the patch must be updated.
// `make perf` builds the result.
func TestThePatchOfThePeerApplies(t *testing.T) {
	NewWithT(t).Expect(tree.Check(t.Context(), "../../..", "stock.patch")).To(Succeed())
}

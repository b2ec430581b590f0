package failover

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/figures"
)

func TestLossesAreAllWaysAsOften(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := full().losses(rand.New(rand.NewPCG(1, 2)))
	count := map[way]int{}
	for _, w := range all {
		count[w]++
	}
	g.Expect(count).To(Equal(map[way]int{kill: 20, stop: 20, pause: 20, cut: 20}))
	g.Expect(all).NotTo(Equal(full().losses(rand.New(rand.NewPCG(3, 4)))), "the order is one of chance")
}

// What the figures say of two hand-overs, in the units that they have.
func TestFigures(t *testing.T) {
	t.Parallel()
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
	ours := &group{subject: subject{name: "ours"}, rates: []electionRates{{leader: 1.03}}, pairs: []*pair{{gaveUp: 1}},
		handovers: map[way][]handover{kill: {killed, late}, stop: {stopped, slow}, pause: {paused}, cut: {severed}}}
	want := map[string]struct {
		runs    []float64
		verdict figures.Verdict
	}{
		"F1.kill":    {[]float64{65, 301}, figures.Missed},
		"F1.pause":   {[]float64{1}, figures.Met},
		"F1.cut":     {[]float64{1.1}, figures.Missed},
		"F2.stop":    {[]float64{70, 501}, figures.Missed},
		"F2.leave":   {[]float64{50, 50}, figures.Reported},
		"F2.release": {[]float64{10, 10}, figures.Reported},
		"F2.begin":   {[]float64{10, 441}, figures.Reported},
		"F3.kill":    {[]float64{0, 0}, figures.Met},
		"F3.stop":    {[]float64{0, 0}, figures.Met},
		"F3.pause":   {[]float64{3}, figures.Missed},
		"F3.cut":     {[]float64{0}, figures.Met},
		"F4.cut":     {[]float64{0.8}, figures.Met},
		"F4.pause":   {[]float64{90}, figures.Met},
		"F6.leader":  {[]float64{1.03}, figures.Met},
		"F6.standby": {[]float64{0}, figures.Met},
		"F7":         {[]float64{1}, figures.Missed},
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
		g.Expect(f.Verdict()).To(Equal(want[f.ID].verdict), f.ID)
	}
	peer := &group{subject: subject{name: "the peer", suffix: ".peer"}, handovers: ours.handovers}
	for _, f := range peer.figures(shipped) {
		g.Expect(f.ID).To(HaveSuffix(".peer"))
		g.Expect(f.Goal).To(BeNil(), "%s: there is no goal for it", f.ID)
	}
}

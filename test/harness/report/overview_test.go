// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestParticipants_ShortNamesDiffer(t *testing.T) {
	for name, tc := range map[string]struct{ replicas, want []string }{
		"Numbers":    {[]string{"op-manager-0", "op-manager-1"}, []string{"replica 0", "replica 1"}},
		"Deployment": {[]string{"op-7d9f8-abcde", "op-7d9f8-abxyz"}, []string{"replica abcde", "replica abxyz"}},
		"OfTwoVersions": {[]string{"op-7d9f8-abcde", "op-66b4c-abxyz"},
			[]string{"replica 66b4c-abxyz", "replica 7d9f8-abcde"}},
		"One":           {[]string{"op-0"}, []string{"replica op-0"}},
		"NothingCommon": {[]string{"a", "b"}, []string{"replica a", "replica b"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history.History{}
			for _, r := range tc.replicas {
				h.Replicas = append(h.Replicas, history.Process{Name: r})
			}
			c := participantsOf(h, invariant.Contract{})
			var got []string
			for i, r := range c.replicas {
				got = append(got, c.short(r))
				NewWithT(t).Expect(c.laneName(c.laneOf(r))).To(Equal(got[i]))
			}
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
}

func TestParticipants_LaneOfRequests(t *testing.T) {
	g := NewWithT(t)
	c := participantsOf(&history.History{Replicas: []history.Process{{Name: "op-0"}}},
		invariant.Contract{Users: []string{"op"}})
	for want, r := range map[string]history.Request{
		"r0":         {User: "op", Replica: "op-0"},
		laneOperator: {User: "op"},
		laneCluster:  {User: "system:serviceaccount:kube-system:namespace-controller"},
		laneUsers:    {User: "admin"},
	} {
		g.Expect(c.lane(r)).To(Equal(want))
	}
}

// bars are those of a class, in the order in which they were drawn.
func bars(o overview, class string) []bar {
	return slices.DeleteFunc(slices.Clone(o.Bars), func(b bar) bool { return !strings.Contains(b.Class, class) })
}

func TestOverview_DrawsProcessesTermsCheckpointsAndFaults(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	s := newTimelineWriter(r, nil)
	o := s.overview(nil)
	var lanes []string
	for _, l := range o.Lanes {
		lanes = append(lanes, l.Name)
		g.Expect(l.Y + l.Height).To(BeNumerically("<", o.Height))
	}
	g.Expect(lanes).To(Equal([]string{"users", "faults", "replica 0", "replica 1", "Kubernetes"}))

	lives := bars(o, "life r0")
	g.Expect(lives).To(HaveLen(2), "one for each process")
	g.Expect(lives[0].X+lives[0].Width).To(BeNumerically("<", lives[1].X), "it was not there in between")
	terms := bars(o, "leads")
	g.Expect(terms).To(HaveLen(2))
	g.Expect(terms[0].Class).To(Equal("leads r0"))
	g.Expect(terms[1].Class).To(Equal("leads r1"))
	g.Expect(terms[0].X+terms[0].Width).To(BeNumerically("~", terms[1].X, 0.11), "one holds the Lease at a time")
	g.Expect(bars(o, "fault")).To(HaveLen(2), "in the lane of faults and in the replica's")
	g.Expect(bars(o, "mark")).To(ConsistOf(HaveField("Label", "end")))
	g.Expect(bars(o, "unreached")).To(BeEmpty())
	r.History.Checkpoints[0].Converged = false
	g.Expect(bars(newTimelineWriter(r, nil).overview(nil), "unreached")).To(HaveLen(1))

	var signs []string
	for _, tick := range o.Ticks {
		g.Expect(tick.X).To(And(BeNumerically(">=", margin), BeNumerically("<=", pictureWidth)))
		signs = append(signs, tick.Sign)
	}
	g.Expect(strings.Join(signs, "")).To(Equal("⚡✖▶"))
}

// A flag stands over the write that broke the promise.
func TestOverview_FlagsAtViolations(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	r.Verdicts = []invariant.Verdict{single(r)}
	sites := violationSitesOf(r.Verdicts)
	o := newTimelineWriter(r, sites).overview(sites)
	var broken []tick
	for _, tick := range o.Ticks {
		if strings.Contains(tick.Class, "broken") {
			broken = append(broken, tick)
		}
	}
	g.Expect(broken).To(HaveLen(1))
	g.Expect(broken[0].Class).To(HavePrefix("r0 "))
	g.Expect(o.Flags).To(HaveLen(1))
	g.Expect(o.Flags[0].X).To(Equal(broken[0].X))
	g.Expect(o.Flags[0].Href).To(Equal(broken[0].Href))
}

// Flags close to each other are stacked. Those without space are in the list at the head of the page.
func TestOverview_FlagsDoNotOverlap(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	violation := invariant.Violation{References: []invariant.HistoryRef{{Request: r.History.Requests[3].ID}}}
	var sites []*violationSite
	for i := range 9 {
		sites = append(sites, &violationSite{Number: i + 1, Violation: violation})
	}
	o := newTimelineWriter(r, sites).overview(sites)
	g.Expect(len(o.Flags)).To(And(BeNumerically(">", 1), BeNumerically("<", 9)))
	seen := map[float64]bool{}
	for _, f := range o.Flags {
		g.Expect(seen).NotTo(HaveKey(f.Y))
		g.Expect(f.Y).To(BeNumerically(">", 0))
		seen[f.Y] = true
	}
}

func TestTimeline_ExternalCallsHaveRows(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	r.History.Calls = []history.Call{
		{ID: "1", Replica: "op-0", Action: history.Create, Thing: "bucket", Owner: "t-uid", Outcome: history.Lost,
			Began: at(450), Ended: at(460), RevisionRange: history.RevisionRange{From: 103, To: 104}},
		{ID: "2", Action: history.Get, Thing: "bucket", Outcome: history.Done, Delivered: true, Began: at(470),
			Ended: at(480), RevisionRange: history.RevisionRange{From: 103, To: 104}},
	}
	p := &violationSite{Number: 1,
		Violation: invariant.Violation{References: []invariant.HistoryRef{{Call: r.History.Calls[0].ID}}}}
	s := newTimelineWriter(r, []*violationSite{p})
	g.Expect(p.Rows).To(HaveLen(1))
	g.Expect(p.Rows[0].call).To(Equal(&r.History.Calls[0]))
	g.Expect(p.Rows[0].Notes).To(Equal([]string{"external", "for UID t-uid", "the answer was not delivered"}))
	var rows []*row
	for _, row := range s.rows {
		if row.call != nil {
			rows = append(rows, row)
		}
	}
	g.Expect(rows).To(HaveLen(2))
	g.Expect([]string{s.laneName(rows[0].Lane), rows[0].Verb, rows[0].Object, rows[0].Effect}).
		To(Equal([]string{"replica 0", "create", "external bucket", "lost"}))
	g.Expect(s.laneName(rows[1].Lane)).To(Equal("outside"))
	o := s.overview([]*violationSite{p})
	g.Expect(o.Lanes).To(ContainElement(HaveField("Name", "external calls")))
	calls := 0
	for _, tick := range o.Ticks {
		if strings.HasPrefix(tick.Class, laneExternal) {
			calls++
		}
	}
	g.Expect(calls).To(Equal(2))
}

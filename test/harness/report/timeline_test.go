// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/net/html"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// drawn is the page of a run.
func drawn(t *testing.T, r *Run) (text string, root *html.Node) {
	t.Helper()
	g := NewWithT(t)
	var page bytes.Buffer
	g.Expect(r.WriteTimeline(&page)).To(Succeed())
	text = page.String()
	root, err := html.Parse(&page)
	g.Expect(err).NotTo(HaveOccurred())
	return text, root
}

// The page must be complete on another machine, without other files or a network.
func TestTimeline_IsSelfContained(t *testing.T) {
	g := NewWithT(t)
	text, root := drawn(t, split(t))
	ids, links := map[string]bool{}, 0
	for n := range root.Descendants() {
		g.Expect(n.Data).NotTo(BeElementOf("script", "link", "img", "iframe", "object"))
		for _, a := range n.Attr {
			g.Expect(a.Key).NotTo(HavePrefix("on"))
			if a.Key == "id" {
				g.Expect(ids).NotTo(HaveKey(a.Val))
				ids[a.Val] = true
			}
		}
	}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key != "href" {
				continue
			}
			g.Expect(a.Val).NotTo(ContainSubstring("//"))
			if to, inside := strings.CutPrefix(a.Val, "#"); inside {
				links++
				g.Expect(ids).To(HaveKey(to))
			}
		}
	}
	g.Expect(links).To(BeNumerically(">", 10))
	g.Expect(text).NotTo(Or(ContainSubstring("url("), ContainSubstring("@import"), ContainSubstring("<b>hostile"),
		ContainSubstring("ZgotmplZ")))
}

// words returns the text of the page, in order, with single spaces.
func words(n *html.Node) string {
	var all []string
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "style" {
			all = append(all, d.Data)
		}
	}
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

func class(n *html.Node) string {
	for _, a := range n.Attr {
		if a.Key == "class" {
			return a.Val
		}
	}
	return ""
}

func TestTimeline_DescribesTheRun(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	_, root := drawn(t, r)
	text := words(root)
	for _, part := range []string{
		"Fault: a replica is killed. It was injected 0.600 s after the start, at replica 0: PATCH /things/t.",
		r.Replay, "seed 7", "plan " + r.Plan, single(r).Promise, single(r).Violations[0].Message,
		"users create things.example.com ns/t 200 stored it did not exist before",
		"replica 0 patch things.example.com ns/t 200 stored + Ready: False (IsFalse)",
		"2 renewals of the Lease, 1 request of the cluster's own controllers about other objects",
		"FAULT: PATCH /things/t, of replica 0", "replica 0 is killed (SIGKILL)", "replica 0 starts",
		"replica 1 is the leader from here on", "replica 1 patch things.example.com ns/t 409 refused Conflict",
		`checkpoint "end": users and faults have stopped, the desired state is reached`,
	} {
		g.Expect(text).To(ContainSubstring(part))
	}
}

// The place where the promise was broken is the write itself, and nothing else.
func TestTimeline_MarksTheViolation(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	r.Verdicts = []invariant.Verdict{single(r)}
	_, root := drawn(t, r)
	var broken []*html.Node
	for n := range root.Descendants() {
		if n.Data == "tr" && strings.Contains(class(n), "broken") {
			broken = append(broken, n)
		}
	}
	g.Expect(broken).To(HaveLen(1))
	stray := broken[0]
	g.Expect(words(stray)).To(ContainSubstring(
		"replica 0 patch things.example.com ns/t (status) 200 stored Ready: False (IsFalse) → True (IsTrue)"))
	why := stray.NextSibling
	for why.Type != html.ElementNode {
		why = why.NextSibling
	}
	g.Expect(words(why)).To(ContainSubstring("single-writer is broken here: " + single(r).Promise))
	g.Expect(words(why)).To(ContainSubstring("at that time replica op-1 held the Lease"))
}

func TestViolationSite_FollowsReferences(t *testing.T) {
	r := split(t)
	revision := func(v uint64) invariant.HistoryRef { return invariant.HistoryRef{Revision: v} }
	for name, tc := range map[string]struct {
		references []invariant.HistoryRef
		want       []string // IDs of rows
	}{
		"Request":      {[]invariant.HistoryRef{{Request: r.History.Requests[3].ID}, revision(103)}, []string{"w3"}},
		"Read":         {[]invariant.HistoryRef{{Request: r.History.Requests[2].ID}}, []string{"w3"}}, // others are not shown
		"Version":      {[]invariant.HistoryRef{revision(103)}, []string{"w3"}},
		"Two":          {[]invariant.HistoryRef{revision(108), revision(103)}, []string{"w8", "w3"}},
		"Checkpoint":   {[]invariant.HistoryRef{{Checkpoint: "end"}}, []string{"mark-end"}},
		"Renewal":      {[]invariant.HistoryRef{revision(104)}, []string{"w4"}},
		"Nothing":      {nil, nil},
		"OtherVersion": {[]invariant.HistoryRef{revision(9999)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := &violationSite{Number: 1, Violation: invariant.Violation{References: tc.references}}
			newTimelineWriter(r, []*violationSite{p})
			var got []string
			for _, row := range p.Rows {
				got = append(got, row.ID)
				g.Expect(row.Aside).To(BeFalse(), "it must be visible")
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

// Two requests may claim a revision; the violation refers to one of them.
func TestViolationSite_DistinguishesRequestsOfOneRevision(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	accused := r.History.Requests[3]
	other := accused
	other.ID, other.Replica = "other", "op-1"
	r.History.Requests = append(r.History.Requests, other)
	r.History.Sort()
	p := &violationSite{Number: 1,
		Violation: invariant.Violation{References: []invariant.HistoryRef{{Request: accused.ID}}}}
	newTimelineWriter(r, []*violationSite{p})
	g.Expect(p.Rows).To(HaveLen(1))
	g.Expect(p.Rows[0].request.ID).To(Equal(accused.ID))
}

func TestTimeline_Lifelines(t *testing.T) {
	g := NewWithT(t)
	s := newTimelineWriter(split(t), nil)
	type state struct{ alive, leads, acts bool }
	seen := map[string][]state{}
	for _, row := range s.rows {
		key := row.Object
		if row.request != nil {
			key = row.request.ID
		}
		for _, l := range row.Lifelines {
			seen[key] = append(seen[key], state{l.Alive, l.Leads, l.Acts})
		}
	}
	g.Expect(seen["400"]).To(Equal([]state{{true, true, true}, {true, false, false}}), "replica 0 writes and leads")
	g.Expect(seen["replica 0 is killed (SIGKILL)"]).To(Equal([]state{{false, true, false}, {true, false, false}}),
		"it has ended, and still has the Lease")
	g.Expect(seen["1300"]).To(Equal([]state{{true, false, false}, {true, true, true}}), "replica 1 has taken the Lease")
	g.Expect(seen["1400"]).To(Equal([]state{{true, false, true}, {true, true, false}}), "replica 0 writes without leading")
}

// A run with an almost empty history is drawn too.
func TestTimeline_EmptyHistory(t *testing.T) {
	g := NewWithT(t)
	text, _ := drawn(t, &Run{History: &history.History{}})
	g.Expect(text).To(ContainSubstring("No fault was injected."))
}

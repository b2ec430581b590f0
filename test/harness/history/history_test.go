// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

var (
	things = history.Resource{Group: "example.com", Resource: "things"}
	lease  = history.Key{Resource: history.Leases, Namespace: "ns", Name: "l"}
)

func second(s int) time.Time { return time.Date(2030, 1, 1, 0, 0, s, 0, time.UTC) }

// thing is a version of an object, named by its UID.
func thing(uid string, version uint64, mutate ...func(*unstructured.Unstructured)) history.Version {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"namespace": "ns", "name": "t", "uid": uid, "generation": int64(1 << 60)},
	}}
	for _, f := range mutate {
		f(o)
	}
	return history.Version{Key: history.Key{Resource: things, Namespace: "ns", Name: "t"}, UID: types.UID(uid),
		RevisionRange: history.At(version), At: second(int(version)), Object: o}
}

func goneA(span history.RevisionRange) history.Version {
	v := thing("a", 0)
	v.RevisionRange, v.Gone, v.Object = span, true, nil
	return v
}

func holds(identity string, version uint64) history.Version {
	return history.Version{Key: lease, UID: "lease", RevisionRange: history.At(version),
		Object: &unstructured.Unstructured{Object: map[string]any{
			"kind": "Lease", "spec": map[string]any{"holderIdentity": identity},
		}}}
}

func TestRevisionRangeBefore(t *testing.T) {
	g := NewWithT(t)
	between := func(from, to uint64) history.RevisionRange { return history.RevisionRange{From: from, To: to} }
	for name, tc := range map[string]struct {
		a, b          history.RevisionRange
		before, after bool
		text          string
	}{
		"TwoWrites":              {history.At(3), history.At(4), true, false, "resourceVersion 3"},
		"TheSameWrite":           {history.At(3), history.At(3), false, false, "resourceVersion 3"},
		"WriteThenCall":          {history.At(3), between(3, 5), true, false, "resourceVersion 3"},
		"CallThenWrite":          {between(3, 5), history.At(5), true, false, "between resourceVersions 3 and 5"},
		"WriteDuringCall":        {history.At(4), between(3, 5), false, false, "resourceVersion 4"},
		"CallsThatTouch":         {between(3, 5), between(5, 7), true, false, "between resourceVersions 3 and 5"},
		"CallsThatOverlap":       {between(3, 5), between(4, 7), false, false, "between resourceVersions 3 and 5"},
		"NothingKnownAfter":      {between(3, 0), history.At(9), false, false, "after resourceVersion 3"},
		"WriteBeforeTheOpenOne":  {history.At(3), between(3, 0), true, false, "resourceVersion 3"},
		"NothingIsKnownAboutOne": {history.RevisionRange{}, history.At(1), false, false, "after resourceVersion 0"},
	} {
		g.Expect(tc.a.Before(tc.b)).To(Equal(tc.before), name)
		g.Expect(tc.b.Before(tc.a)).To(Equal(tc.after), name)
		g.Expect(tc.a.String()).To(Equal(tc.text), name)
	}
}

func TestCodecKeepsEverythingAndSorts(t *testing.T) {
	g := NewWithT(t)
	h := &history.History{
		Recorded: []history.Source{history.Audit, history.External},
		Aliases:  map[string]string{"t-1a2b": "t"},
		Requests: []history.Request{
			{ID: "2", Verb: "patch", Key: lease, RevisionRange: history.At(7), Effect: history.Stored, Received: second(2),
				Answered: second(3)},
			{ID: "1", Verb: "list", Key: lease, RevisionRange: history.RevisionRange{From: 3}, Effect: history.Read,
				Received: second(1), Answered: second(1)},
		},
		Versions: []history.Version{goneA(history.RevisionRange{From: 4, To: 8}), thing("a", 5), thing("b", 8)},
		Events: []history.Event{{Regarding: "a", Reason: "Made", First: true, RevisionRange: history.At(6),
			At: second(6)}},
		Calls: []history.Call{{ID: "1", Action: history.Create, Thing: "b", Owner: "a", Outcome: history.Lost,
			Began: second(4), Ended: second(5), RevisionRange: history.RevisionRange{From: 5, To: 6}}},
		Faults: []history.FaultRecord{{Name: "late", Began: second(2)}, {Name: "cut", Happened: 1, Began: second(1)}},
		Checkpoints: []history.Checkpoint{{Name: "end", Converged: true, Began: second(7), Ended: second(9), Listed: true,
			Things: []history.ExternalThing{{Name: "b", Owner: "a"}}}},
		Replicas: []history.Process{{Name: "r-2", Started: second(1)},
			{Name: "r-1", Started: second(0), Asked: second(1), Ended: second(2), Exit: 1}},
		Probes: []history.Probe{
			{Replica: "r-1", Request: history.Work, Figures: map[string]float64{history.Finished: 40}, First: second(3),
				Last: second(3)},
			{Replica: "r-1", Request: history.Ready, Result: history.No, Detail: "500", First: second(1), Last: second(2)},
		},
		Followed: []history.Following{{Replica: "r-1", Path: "/b", Asked: second(2)},
			{Replica: "r-1", Path: "/a", Asked: second(1), Synced: second(2)}},
	}
	var first, again bytes.Buffer
	g.Expect(h.Encode(&first)).To(Succeed())
	text := first.String()
	back, err := history.Decode(&first)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(back).To(BeComparableTo(h))
	sorted := []any{back.Requests[0].ID, back.Versions[0].Gone, back.Versions[1].Gone, back.Faults[0].Name,
		back.Replicas[0].Name, back.Probes[0].Request, back.Followed[0].Path}
	g.Expect(sorted).To(Equal([]any{"1", false, true, "cut", "r-1", history.Ready, "/a"}))
	g.Expect(back.Encode(&again)).To(Succeed())
	g.Expect(again.String()).To(Equal(text))
	g.Expect(back.Void()).To(HaveExactElements(HaveField("Name", "late")), "the fault that did not happen")
}

func TestDecodeRefuses(t *testing.T) {
	g := NewWithT(t)
	for name, tc := range map[string]struct{ text, want string }{
		"NotJSON":      {"history", "decoding the history"},
		"OtherFormat":  {`{"format":2,"recorded":[]}`, "format 2 is not 1"},
		"UnknownField": {`{"format":1,"recorded":[],"rumours":[]}`, "unknown field"},
		"EmptyVersion": {`{"format":1,"recorded":[],"versions":[{"resource":"things","uid":"a","from":3,"to":3}]}`,
			"has no object"},
		"NoFormatAtAll": {`{}`, "format 0 is not 1"},
	} {
		_, err := history.Decode(strings.NewReader(tc.text))
		g.Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
	}
}

func TestTerms(t *testing.T) {
	g := NewWithT(t)
	unheld := holds("", 30)
	deleted := history.Version{Key: lease, UID: "lease", RevisionRange: history.RevisionRange{From: 40, To: 45},
		Gone: true}
	terms := (&history.History{Versions: []history.Version{
		holds("a_1", 10), holds("a_1", 12), holds("b_1", 20), thing("x", 21), unheld, holds("b_2", 35), deleted,
		holds("c", 50),
	}}).Terms(lease)
	var got []string
	for _, term := range terms {
		got = append(got, term.Holder+" "+term.String())
	}
	want := []string{"a resourceVersion 10", "b resourceVersion 20", " resourceVersion 30", "b resourceVersion 35",
		" between resourceVersions 40 and 45", "c resourceVersion 50"}
	g.Expect(got).To(Equal(want))
	for span, want := range map[history.RevisionRange]string{
		history.At(9):        "[]",
		history.At(11):       "[a]",
		history.At(25):       "[b]",
		history.At(31):       "[]", // no holder: one empty name
		history.At(42):       "[b ]",
		history.At(46):       "[]",
		history.At(60):       "[c]",
		{From: 11, To: 25}:   "[a b]",
		{From: 50, To: 0}:    "[c]",
		{From: 44, To: 51}:   "[b  c]",
		{From: 5, To: 11}:    "[a]",
		{From: 100, To: 120}: "[c]",
	} {
		g.Expect(fmt.Sprint(history.HeldDuring(terms, span))).To(Equal(want), span.String())
	}
	g.Expect(history.HeldDuring(terms, history.At(9))).To(BeEmpty(), "nothing is known before the first term")
	g.Expect(history.HeldDuring(terms, history.At(31))).To(HaveLen(1), "no holder after the release")
}

// A release may be answered after the takeover that followed it.
func TestTerms_AnswersInTheOtherOrder(t *testing.T) {
	released, takeover := holds("", 11), holds("b_1", 12)
	released.At, takeover.At = second(3), second(2)
	terms := (&history.History{Versions: []history.Version{holds("a_1", 10), released, takeover}}).Terms(lease)
	NewWithT(t).Expect(terms).To(HaveExactElements(HaveField("Holder", "a"), HaveField("At", takeover.At),
		HaveField("Holder", "b")))
}

// What a process followed before it led is judged by when its own term began.
func TestTerms_RestartBeginsATerm(t *testing.T) {
	terms := (&history.History{Versions: []history.Version{holds("a_1", 10), holds("a_2", 20), holds("a_2", 30)}}).
		Terms(lease)
	NewWithT(t).Expect(terms).To(HaveExactElements(HaveField("RevisionRange", history.At(10)),
		And(HaveField("Holder", "a"), HaveField("RevisionRange", history.At(20)))))
}

// Processes on one machine have the same host name, so the identities that controller-runtime
// derives from it do not name the replica.
func TestTerms_NameTheReplica(t *testing.T) {
	g := NewWithT(t)
	by := func(replica string, version uint64, effect history.Effect) history.Request {
		return history.Request{Replica: replica, Key: lease, RevisionRange: history.At(version), Effect: effect}
	}
	another := by("c", 20, history.Stored)
	another.Name = "another"
	h := &history.History{
		Versions: []history.Version{holds("vm_1", 10), holds("vm_1", 12), holds("vm_2", 20), holds("vm_1", 30), holds("", 40),
			holds("vm_3", 50), holds("vm_3", 51)},
		Requests: []history.Request{
			by("a", 12, history.Stored), by("b", 20, history.Stored), another, by("b", 30, history.Unchanged),
			by("", 30, history.Stored),
			by("a", 40, history.Stored), by("a", 51, history.Stored),
		},
	}
	var got []string
	for _, term := range h.Terms(lease) {
		got = append(got, term.Holder+" "+term.String())
	}
	want := []string{"a resourceVersion 10", "b resourceVersion 20", "a resourceVersion 30", " resourceVersion 40",
		"a resourceVersion 50"}
	g.Expect(got).To(Equal(want))
}

func TestMerge(t *testing.T) {
	g := NewWithT(t)
	audit := &history.History{
		Recorded: []history.Source{history.Audit},
		Requests: []history.Request{{ID: "d", Verb: "delete", UID: "a", Effect: history.Deleted,
			RevisionRange: history.RevisionRange{From: 5, To: 9}}},
		Versions: []history.Version{thing("a", 5), goneA(history.RevisionRange{From: 5, To: 9})},
		Probes:   []history.Probe{{Replica: "b", First: second(2)}},
	}
	watch := &history.History{
		Recorded: []history.Source{history.Watch, history.Audit},
		Began:    second(1),
		Aliases:  map[string]string{"x": "y"},
		Versions: []history.Version{thing("a", 4), thing("a", 5), goneA(history.At(7)), thing("b", 8)},
		Probes:   []history.Probe{{Replica: "a", First: second(1)}},
		Followed: []history.Following{{Replica: "a", Path: "/x"}},
	}
	audit.Merge(watch)
	audit.Merge(&history.History{Began: second(2)})
	var got []string
	for _, v := range audit.Versions {
		got = append(got, fmt.Sprintf("%s %s %t", v.UID, v.RevisionRange, v.Gone))
	}
	want := []string{"a resourceVersion 4 false", "a resourceVersion 5 false", "a resourceVersion 7 true",
		"b resourceVersion 8 false"}
	g.Expect(got).To(Equal(want))
	g.Expect(audit.Requests[0].RevisionRange).To(Equal(history.At(7)))
	g.Expect(audit.Recorded).To(Equal([]history.Source{history.Audit, history.Watch}))
	if audit.Aliases["x"] != "y" || !audit.Has(history.External, history.Watch) || audit.Has(history.External) {
		t.Errorf("merged: %v, %v", audit.Aliases, audit.Recorded)
	}
	g.Expect(audit.Began).To(Equal(second(1)))
	g.Expect(audit.Probes).To(HaveExactElements(HaveField("Replica", "a"), HaveField("Replica", "b")))
	g.Expect(audit.Followed).To(HaveLen(1))
}

func TestIndex(t *testing.T) {
	g := NewWithT(t)
	now := func(o *unstructured.Unstructured) {
		o.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2030-01-01T00:00:00Z"
	}
	h := &history.History{Versions: []history.Version{
		thing("a", 3), thing("a", 5, now), goneA(history.At(6)), thing("b", 7), holds("x", 8),
	}}
	x := h.Index()
	lives := x.Lifetimes(things)
	g.Expect(lives).To(HaveLen(2))
	g.Expect(x.All()).To(HaveLen(3))
	g.Expect(x.Lifetime("none")).To(BeNil())
	a := x.Lifetime("a")
	version := func(v *history.Version) uint64 {
		if v == nil {
			return 0
		}
		return v.From
	}
	for name, tc := range map[string]struct{ got, want uint64 }{
		"End":          {version(a.End), 6},
		"NoEnd":        {version(lives[1].End), 0},
		"Last":         {version(a.Last()), 5},
		"Terminating":  {version(a.Terminating()), 5},
		"Staying":      {version(lives[1].Terminating()), 0},
		"NeverWatched": {version((&history.Lifetime{}).Last()), 0},
	} {
		g.Expect(tc.got).To(Equal(tc.want), name)
	}
}

func TestCheckpointContains(t *testing.T) {
	g := NewWithT(t)
	mark := history.Checkpoint{Began: second(10), Ended: second(20), RevisionRange: history.RevisionRange{From: 5, To: 9}}
	last := history.Checkpoint{Began: second(10), Ended: second(20), RevisionRange: history.RevisionRange{From: 5}}
	for name, tc := range map[string]struct {
		mark history.Checkpoint
		span history.RevisionRange
		at   int
		want bool
	}{
		"Within":              {mark, history.At(6), 12, true},
		"TheLastBeforeIt":     {mark, history.At(5), 12, false},
		"TheFirstAfterIt":     {mark, history.At(9), 12, false},
		"Refused":             {mark, history.RevisionRange{From: 5, To: 9}, 12, true},
		"RefusedTooEarly":     {mark, history.RevisionRange{From: 5, To: 9}, 9, false},
		"RefusedTooLate":      {mark, history.RevisionRange{From: 5, To: 9}, 21, false},
		"RefusedSomeTime":     {mark, history.RevisionRange{From: 4, To: 9}, 12, false},
		"NothingCameAfter":    {last, history.RevisionRange{From: 7}, 12, true},
		"NothingCameAfterNor": {mark, history.RevisionRange{From: 7}, 12, false},
	} {
		g.Expect(tc.mark.Contains(tc.span, second(tc.at))).To(Equal(tc.want), name)
	}
}

func TestNormalizer(t *testing.T) {
	g := NewWithT(t)
	h := &history.History{Aliases: map[string]string{"t-1": "first", "t-12": "second"}}
	g.Expect(h.Normalizer().Replace("t-12/t-1/t-2")).To(Equal("second/first/t-2"))
}

func TestTexts(t *testing.T) {
	g := NewWithT(t)
	request := history.Request{Verb: "patch", User: "someone", Key: history.Key{Resource: things, Namespace: "ns",
		Name: "t"}, Subresource: "status", RevisionRange: history.At(4), Code: 200}
	byReplica := request
	byReplica.Replica, byReplica.Subresource = "r-1", ""
	call := history.Call{Action: history.Create, Thing: "b", Outcome: history.Done,
		RevisionRange: history.RevisionRange{From: 3, To: 4}}
	for got, want := range map[string]string{
		request.String():   "patch of things.example.com ns/t (status) by someone at resourceVersion 4, answered 200",
		byReplica.String(): "patch of things.example.com ns/t by replica r-1 at resourceVersion 4, answered 200",
		call.String():      "create of external b for UID (none) by replica (none) between resourceVersions 3 and 4: done",
		(history.Key{Resource: history.Resource{Resource: "namespaces"}, Name: "n"}).String(): "namespaces n",
		(history.Key{Resource: things, Namespace: "ns"}).String():                             "things.example.com ns",
		(history.Key{Resource: things}).String():                                              "things.example.com",
	} {
		g.Expect(got).To(Equal(want))
	}
}

func TestReplicaDuring(t *testing.T) {
	g := NewWithT(t)
	lived, lives := history.Process{Started: second(2), Ended: second(4)}, history.Process{Started: second(2)}
	for _, tc := range []struct {
		replica history.Process
		at      int
		want    bool
	}{{lived, 1, false}, {lived, 2, true}, {lived, 3, true}, {lived, 4, false}, {lives, 1, false}, {lives, 9, true}} {
		g.Expect(tc.replica.During(second(tc.at))).To(Equal(tc.want), "%+v during second %d", tc.replica, tc.at)
	}
}

func TestNeighbours(t *testing.T) {
	g := NewWithT(t)
	epoch := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	request := func(version uint64, effect history.Effect, received, answered int) history.Request {
		return history.Request{RevisionRange: history.At(version), Effect: effect, Received: at(received),
			Answered: at(answered)}
	}
	vague := request(0, history.Deleted, 31, 32)
	vague.RevisionRange = history.RevisionRange{From: 1, To: 99}
	h := &history.History{Requests: []history.Request{
		request(5, history.Stored, 1, 2),
		request(4, history.Stored, 1, 3), // answered later and stored before
		request(7, history.Stored, 9, 11),
		request(6, history.Unchanged, 4, 5), // no evidence of its time
		request(12, history.Deleted, 30, 31),
		request(13, history.Stored, 33, 34),
		request(3, history.Unchanged, 40, 41),
		vague,
	}}
	for name, tc := range map[string]struct {
		began, ended time.Time
		want         history.RevisionRange
	}{
		"Between":     {at(10), at(20), history.RevisionRange{From: 5, To: 12}},
		"AfterAll":    {at(50), at(60), history.RevisionRange{From: 13}},
		"BeforeAll":   {at(0), at(0), history.RevisionRange{To: 4}},
		"WithoutEnd":  {at(10), time.Time{}, history.RevisionRange{From: 5}},
		"AtOnce":      {at(11), at(29), history.RevisionRange{From: 7, To: 12}},
		"Overlapping": {at(10), at(30), history.RevisionRange{From: 5, To: 13}},
	} {
		g.Expect(h.Neighbours(tc.began, tc.ended)).To(Equal(tc.want), name)
	}
}

package run

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"leasehold.dev/test/harness/history"
)

func TestStaleStart_ReturnsOldLists(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	resource := thingKind.GroupVersion().WithResource("things")
	store := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "ThingList"}, newThing("before"))
	n.dynamic = store
	a := n.injectID(t, "s:stale-start:START:"+collection+":2")
	g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
	g.Expect(store.Tracker().Add(newThing("after"))).To(Succeed())
	_, kills := n.processes[0].counts()
	g.Expect(kills).To(BeZero(), "it first does its work")
	g.Eventually(n.clock.HasWaiters, testTimeout).Should(BeTrue())
	n.clock.Step(silenceFor)
	for _, w := range n.processes {
		g.Eventually(func() int { _, kills := w.counts(); return kills }, testTimeout).Should(Equal(1))
	}

	code, _ := n.get(t, "?watch=true&sendInitialEvents=true")
	g.Expect(code).To(Equal(http.StatusInternalServerError))
	code, list := n.get(t, "?limit=500&resourceVersion=0")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(list).To(And(ContainSubstring(`"kind":"ThingList"`), ContainSubstring(`"before"`),
		Not(ContainSubstring(`"after"`))))
	_, list = n.get(t, "")
	g.Expect(list).To(BeEmpty(), "who asks for what is now is told by the API server")
	lines := n.watchAt(t, 0, collection, "")
	n.send(t, "after")
	g.Consistently(lines, 50*time.Millisecond).ShouldNot(Receive())
	g.Eventually(func() bool {
		n.clock.Step(staleFor)
		select {
		case line := <-lines:
			return strings.Contains(line, "after")
		default:
			return false
		}
	}, testTimeout).Should(BeTrue(), "in the end it is told")
	code, list = n.get(t, "?limit=500&resourceVersion=0")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(list).To(BeEmpty(), "it is over")
	g.Eventually(func() []history.Fault { a.mu.Lock(); defer a.mu.Unlock(); return a.occurrences }, testTimeout).
		Should(HaveLen(1))
	g.Expect(a.heal()).To(Succeed(), "though the other has not asked")
	f := a.result()
	g.Expect(f.Happened).To(Equal(1))
	g.Expect(f.Replica).To(Equal("one"))
}

// A list with a label selector does not get the other objects.
func TestStaleStart_HeedsSelectors(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	resource := thingKind.GroupVersion().WithResource("things")
	ours := newThing("ours")
	ours.SetLabels(map[string]string{"made": "by-us"})
	n.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "ThingList"}, ours, newThing("theirs"))
	n.watchAt(t, 0, collection, "&labelSelector=made%3Dby-us")
	a := n.injectID(t, "s:stale-start:START:"+collection+":2")
	g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
	g.Eventually(n.clock.HasWaiters, testTimeout).Should(BeTrue())
	n.clock.Step(silenceFor)
	g.Eventually(func() int { _, kills := n.processes[1].counts(); return kills }, testTimeout).Should(Equal(1))
	_, list := n.get(t, "?resourceVersion=0&labelSelector=made%3Dby-us")
	g.Expect(list).To(And(ContainSubstring(`"ours"`), Not(ContainSubstring(`"theirs"`))))
	_, list = n.get(t, "?resourceVersion=0")
	g.Expect(list).To(And(ContainSubstring(`"ours"`), ContainSubstring(`"theirs"`)))
}

// A client that lists the newest version cannot be given an old list. It meets late watches.
func TestStaleStart_DelaysWatchesOfNewestLists(t *testing.T) {
	g := NewWithT(t)
	n := newWatchSource(t)
	resource := thingKind.GroupVersion().WithResource("things")
	n.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "ThingList"})
	a := n.injectID(t, "s:stale-start:START:"+collection+":2")
	g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
	g.Eventually(n.clock.HasWaiters, testTimeout).Should(BeTrue())
	n.clock.Step(silenceFor)
	g.Eventually(func() int { _, kills := n.processes[1].counts(); return kills }, testTimeout).Should(Equal(1))
	code, _ := n.get(t, "?watch=true&sendInitialEvents=true")
	g.Expect(code).To(Equal(http.StatusInternalServerError))
	code, list := n.get(t, "?limit=500")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(list).To(BeEmpty(), "the API server answers")
	g.Eventually(func() []history.Fault {
		n.clock.Step(staleFor)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.occurrences
	}, testTimeout).Should(ConsistOf(HaveField("Detail", ContainSubstring("listed "+collection+" at the newest version"))))
	g.Expect(a.heal()).To(Succeed(), "though the other has not asked")
	g.Expect(a.result().Happened).To(Equal(1))
}

// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

func ofType(kind watch.EventType) any { return HaveField("Type", kind) }

var everyNamespace = Match{Path: "/api/v1/namespaces"}

// eachWay runs a test in both encodings of Kubernetes.
func eachWay(t *testing.T, test func(w *watching)) {
	t.Helper()
	for name, media := range map[string]string{"JSON": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) { test(startWatching(t, media)) })
	}
}

func TestJournalHasTheFramesOfWatches(t *testing.T) {
	eachWay(t, func(w *watching) {
		t, g := w.t, NewWithT(w.t)
		i := w.open(t)
		for _, sent := range []struct {
			kind        watch.EventType
			name        string
			annotations []string
		}{{watch.Added, "a", nil}, {watch.Bookmark, "", []string{metav1.InitialEventsAnnotationKey}}, {watch.Error, "b", nil}} {
			w.send(t, sent.kind, sent.name, sent.annotations...)
			g.Eventually(i.ResultChan(), eventually).Should(Receive(ofType(sent.kind)), "before the next is sent")
		}
		g.Eventually(func() []Frame { return w.proxy.Journal().Frames }, eventually).Should(HaveExactElements(
			HaveField("Delivered", Not(BeZero())), HaveField("Delivered", Not(BeZero())), HaveField("Delivered", Not(BeZero()))))
		now, frames := w.clock.Now(), w.proxy.Journal().Frames
		g.Expect(frames[0]).To(Equal(Frame{
			Request: 1, Type: watch.Added, Name: "a", Received: now, Delivered: now,
		}))
		g.Expect(frames[1]).To(Equal(Frame{
			Request: 1, Type: watch.Bookmark, Synced: true, Received: now, Delivered: now,
		}))
		g.Expect(frames[2].Type).To(Equal(watch.Error))
		g.Expect(w.proxy.Journal().Requests[0].Delivered).To(BeZero(), "the response is not complete")
		w.each(func(events chan watch.Event) { close(events) })
		g.Eventually(i.ResultChan(), eventually).Should(BeClosed())
		g.Eventually(func() time.Time { return w.proxy.Journal().Requests[0].Delivered }, eventually).ShouldNot(BeZero())
	})
}

func TestJournalDropsOldFrames(t *testing.T) {
	g := NewWithT(t)
	j := &journal{}
	for n := range 5 * keptFrames {
		j.framed(&Frame{Request: n})
		g.Expect(len(j.frames)).To(BeNumerically("<=", 2*keptFrames))
	}
	frames := j.snapshot().Frames
	g.Expect(len(frames)).To(BeNumerically(">=", keptFrames))
	g.Expect(frames[len(frames)-1].Request).To(Equal(5*keptFrames - 1))
}

func TestLargeEventsPassAsTheyAre(t *testing.T) {
	eachWay(t, func(w *watching) {
		t, g := w.t, NewWithT(w.t)
		i := w.open(t)
		name := strings.Repeat("x", 100_000)
		w.send(t, watch.Added, name)
		g.Eventually(i.ResultChan(), eventually).Should(Receive(HaveField("Object.ObjectMeta.Name", name)))
	})
}

func TestLag_KeepsTheOrder(t *testing.T) {
	eachWay(t, func(w *watching) {
		t, g := w.t, NewWithT(w.t)
		i := w.open(t)
		w.send(t, watch.Added, "before")
		g.Eventually(i.ResultChan(), eventually).Should(Receive(ofType(watch.Added)), "before the fault")
		lag := w.proxy.Inject(Rule{Match: everyNamespace, Fault: Lag{}})
		other := w.proxy.Inject(Rule{Match: Match{Path: "/api/v1/pods"}, Fault: Lag{}})
		w.send(t, watch.Modified, "a")
		w.send(t, watch.Bookmark, "", metav1.InitialEventsAnnotationKey)
		w.send(t, watch.Deleted, "a")
		g.Eventually(lag.Count, eventually).Should(Equal(1))
		g.Eventually(func() []Frame { return w.proxy.Journal().Frames }, eventually).Should(HaveLen(4))
		g.Consistently(i.ResultChan(), moment).ShouldNot(Receive())
		g.Expect(w.proxy.Journal().Frames[1].Delivered).To(BeZero())
		lag.Heal()
		for _, kind := range []watch.EventType{watch.Modified, watch.Bookmark, watch.Deleted} {
			g.Eventually(i.ResultChan(), eventually).Should(Receive(ofType(kind)))
		}
		g.Expect(lag.Count()).To(Equal(1), "one watch")
		g.Expect(other.Count()).To(BeZero())
		w.send(t, watch.Added, "after")
		g.Eventually(i.ResultChan(), eventually).Should(Receive(ofType(watch.Added)))
		g.Expect(w.proxy.Journal().Requests).To(HaveLen(1), "the watch went on")
	})
}

func TestLag_NeedsEvents(t *testing.T) {
	g := NewWithT(t)
	w := startWatching(t, runtime.ContentTypeJSON)
	lag := w.proxy.Inject(Rule{Match: everyNamespace, Fault: Lag{}})
	i := w.open(t) // new watches are affected, too
	w.each(func(events chan watch.Event) { close(events) })
	g.Consistently(i.ResultChan(), moment).ShouldNot(BeClosed(), "the end is late, too")
	lag.Heal()
	g.Eventually(i.ResultChan(), eventually).Should(BeClosed())
	g.Expect(lag.Happened()).To(BeFalse())
}

// Other rules are not kept from their requests by what holds a watch.
func TestWatchFaults_LeaveOtherRequests(t *testing.T) {
	g := NewWithT(t)
	w := startWatching(t, runtime.ContentTypeJSON)
	w.proxy.Inject(Rule{Fault: Lag{}})
	answer, err := Refusal(http.StatusServiceUnavailable)
	g.Expect(err).NotTo(HaveOccurred())
	w.proxy.Inject(Rule{Fault: answer})
	_, err = namespaces(t, w.config, w.media).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
}

// A response that is not a watch is not parsed as one, whatever its query.
func TestWatchFaults_PassOtherStreams(t *testing.T) {
	g := NewWithT(t)
	s := startAPIServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("no events"))
		_ = http.NewResponseController(w).Flush() // the client detects errors
	})
	p, config := replicaOf(t, s, nil)
	text, err := namespaces(t, config, runtime.ContentTypeJSON).CoreV1().RESTClient().Get().AbsPath("/logs").Param("watch",
		"true").DoRaw(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(Equal("no events"))
	g.Expect(p.Journal().Frames).To(BeEmpty())
}

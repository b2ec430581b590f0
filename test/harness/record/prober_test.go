// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// eventually is the timeout for conditions that take well under a second.
const eventually = 30 * time.Second

// probed is a process that answers as the test specifies.
type probed struct {
	mu      sync.Mutex
	codes   map[string]int
	metrics string
	reads   int // of the metrics
}

// asked waits for this number of further requests of metrics.
func (p *probed) asked(more int) func() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := p.reads + more
	return func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.reads >= want }
}

func (p *probed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == "/metrics" {
		p.reads++
		_, _ = io.WriteString(w, p.metrics)
		return
	}
	w.WriteHeader(p.codes[r.URL.Path])
	fmt.Fprintf(w, "answer of %s\n", r.URL.Path)
}

func (p *probed) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func address(s *httptest.Server) string { return strings.SplitN(s.URL, "//", 2)[1] }

// answers returns a function that reads the answers to a question, in order.
func answers(p *record.Prober, question history.ProbeRequest) func() []history.ProbeResult {
	return func() (all []history.ProbeResult) {
		for _, probe := range p.Since(time.Time{}) {
			if probe.Request == question {
				all = append(all, probe.Result)
			}
		}
		return all
	}
}

const metrics = `# TYPE workqueue_depth gauge
workqueue_depth{name="a"} %d
workqueue_depth{name="b"} 0
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller="a"} %d
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="a",result="success"} 3
controller_runtime_reconcile_total{controller="a",result="error"} 4
# TYPE go_goroutines gauge
go_goroutines 42
`

func TestProber_KeepsChanges(t *testing.T) {
	g := NewWithT(t)
	before := goleak.IgnoreCurrent()
	process := &probed{codes: map[string]int{"/readyz": 500}, metrics: fmt.Sprintf(metrics, 0, 0)}
	server := httptest.NewServer(process)
	webhook := httptest.NewTLSServer(http.NotFoundHandler())
	p := record.Probe(t.Context(), clock.RealClock{}, record.ProbeTarget{
		Name: "r-1", Ready: server.URL + "/readyz", Metrics: address(server), Webhook: address(webhook),
		Timeout: eventually,
	})
	readiness, serves, work := answers(p, history.Ready), answers(p, history.Serves), answers(p, history.Work)
	g.Eventually(readiness, eventually).Should(HaveExactElements(history.No))
	g.Expect(serves()).To(BeEmpty(), "no probe has found it serving yet")
	process.change(func() { process.codes["/readyz"] = 200 })
	g.Eventually(serves, eventually).Should(HaveExactElements(history.Yes))
	g.Expect(readiness()).To(HaveExactElements(history.No, history.Yes))
	g.Eventually(work, eventually).Should(HaveExactElements(history.Idle))
	process.change(func() { process.metrics = fmt.Sprintf(metrics, 1, 0) })
	g.Eventually(work, eventually).Should(HaveExactElements(history.Idle, history.Busy))
	process.change(func() { process.metrics = fmt.Sprintf(metrics, 0, 0) })
	g.Eventually(work, eventually).Should(HaveExactElements(history.Idle, history.Busy, history.Idle))
	process.change(func() { process.metrics = fmt.Sprintf(metrics, 0, 1) })
	g.Eventually(work, eventually).Should(HaveExactElements(history.Idle, history.Busy, history.Idle, history.Busy))
	process.change(func() { process.metrics = "no metrics" })
	g.Eventually(process.asked(3), eventually).Should(BeTrue())
	process.change(func() { process.metrics = fmt.Sprintf(metrics, 0, 1) })
	g.Eventually(work, eventually).Should(HaveLen(5), "whether it was busy meanwhile is not known")
	webhook.Close()
	p.Restart()
	g.Eventually(serves, eventually).Should(HaveExactElements(history.Yes, history.No), "of the next process")
	server.Close()
	p.Restart()
	g.Eventually(readiness, eventually).Should(HaveExactElements(history.No, history.Yes, history.Yes, history.NoAnswer))
	p.Stop()
	for _, probe := range p.Since(time.Time{}) {
		g.Expect(probe.Replica).To(Equal("r-1"))
		g.Expect(probe.Last).To(BeTemporally(">=", probe.First))
		switch probe.Request {
		case history.Work:
			g.Expect(probe.Figures).To(Equal(map[string]float64{history.Finished: 7}))
		case history.Ready:
			if probe.Result == history.No {
				g.Expect(probe.Detail).To(Equal("500: answer of /readyz"))
			}
		}
	}
	g.Expect(goleak.Find(before)).To(Succeed())
}

// Metrics are read with and without TLS. Those that need an identity are not, and the reason is known.
func TestProber_Metrics(t *testing.T) {
	for name, serve := range map[string]func(http.Handler) *httptest.Server{
		"plain": httptest.NewServer, "TLS": httptest.NewTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var code atomic.Int64
			code.Store(http.StatusUnauthorized)
			server := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(int(code.Load()))
				_, _ = io.WriteString(w, "controller_runtime_reconcile_total 3\n")
			}))
			t.Cleanup(server.Close)
			p := record.Probe(t.Context(), clock.RealClock{},
				record.ProbeTarget{Name: "one", Metrics: address(server), Timeout: eventually})
			t.Cleanup(p.Stop)
			g.Eventually(p.Unread, eventually).Should(MatchError(ContainSubstring("401 Unauthorized")))
			code.Store(http.StatusOK)
			g.Eventually(func() bool { _, _, known := p.Workload(); return known }, eventually).Should(BeTrue())
			g.Expect(p.Unread()).NotTo(HaveOccurred())
		})
	}
}

func TestProberDropsOldResults(t *testing.T) {
	g := NewWithT(t)
	process := &probed{codes: map[string]int{"/readyz": 500}}
	server := httptest.NewServer(process)
	defer server.Close()
	p := record.Probe(t.Context(), clock.RealClock{},
		record.ProbeTarget{Name: "r-1", Ready: server.URL + "/readyz", Timeout: eventually})
	defer p.Stop()
	g.Eventually(answers(p, history.Ready), eventually).Should(HaveLen(1))
	process.change(func() { process.codes["/readyz"] = 200 })
	g.Eventually(answers(p, history.Ready), eventually).Should(HaveLen(2))
	g.Expect(answers(p, history.Serves)()).To(BeEmpty(), "there are no webhooks")
	g.Expect(answers(p, history.Work)()).To(BeEmpty(), "there are no metrics")
	later := clock.RealClock{}.Now().Add(time.Hour)
	g.Expect(p.Since(later)).To(BeEmpty())
	p.Forget(later)
	g.Expect(answers(p, history.Ready)()).To(Equal([]history.ProbeResult{history.Yes}), "the last one is kept")
	process.change(func() { process.codes["/readyz"] = 404 })
	p.Restart()
	g.Eventually(answers(p, history.Ready), eventually).Should(HaveExactElements(history.Yes, history.No))
}

// An answer that the process before may have given is not the next one's.
func TestProber_SeparatesProcesses(t *testing.T) {
	g := NewWithT(t)
	asked, answer := make(chan struct{}, 2), make(chan int) // for the first two requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			return
		}
		select {
		case asked <- struct{}{}:
		default: // the test needs no more
		}
		if code, more := <-answer; more {
			w.WriteHeader(code)
		}
	}))
	defer server.Close()
	p := record.Probe(t.Context(), clock.RealClock{},
		record.ProbeTarget{Name: "r-1", Ready: server.URL + "/readyz", Timeout: eventually})
	defer p.Stop()
	g.Eventually(asked, eventually).Should(Receive())
	p.Restart()
	answer <- http.StatusInternalServerError
	g.Eventually(asked, eventually).Should(Receive())
	close(answer)
	g.Eventually(answers(p, history.Ready), eventually).Should(HaveExactElements(history.Yes))
	p.Restart()
	g.Eventually(answers(p, history.Ready), eventually).Should(HaveExactElements(history.Yes, history.Yes))
}

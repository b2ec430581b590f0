package run

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// eventually is how long a test waits for what takes well under a second.
const eventually = 30 * time.Second

// unreadyFlag is one with which no worker becomes ready.
const unreadyFlag = "--role=unbound"

// worker is a process that lives until it is ended.
type worker struct {
	name   string
	deaf   bool // it does not stop when it is asked to
	unlike unlike
	// restless is why nobody has seen it stop running.
	restless error

	mu     sync.Mutex
	gone   chan int // the exit code of the life that is now
	starts int
	kills  int
	said   []string // what was done to it beside
}

func newWorker(name string) *worker { return &worker{name: name, gone: make(chan int, 1), starts: 1} }

func (w *worker) Name() string       { return w.name }
func (w *worker) LogTail(int) string { return "" }

// Ready fails with a flag that says so.
func (w *worker) Ready(context.Context) error {
	if slices.Contains(w.unlike.args, unreadyFlag) {
		return errors.New("a right is missing")
	}
	return nil
}

// Owns is that a worker's connections come from an address of its name.
func (w *worker) Owns(address, _ string) bool { return address == w.name }

func (w *worker) Wait(ctx context.Context) (int, error) {
	select {
	case code := <-w.gone:
		return code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (w *worker) Restart() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	return nil
}

func (w *worker) Kill() {
	w.mu.Lock()
	w.kills++
	w.mu.Unlock()
	select {
	case w.gone <- -1:
	default: // it is on its way
	}
}

// Signal ends it as a process that is asked to stop does.
func (w *worker) Signal(s os.Signal) error {
	w.says("asked by " + s.String())
	if !w.deaf {
		w.gone <- 0
	}
	return nil
}

func (w *worker) Ports() env.ReplicaPorts     { return env.ReplicaPorts{Probe: 1, Metrics: 2, Webhook: 3} }
func (w *worker) Pause(context.Context) error { w.says("paused"); return w.restless }
func (w *worker) Resume() error               { w.says("resumed"); return nil }

func (w *worker) says(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *worker) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func (w *worker) counts() (starts, kills int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starts, w.kills
}

// stage is a Prover of two workers whose API server is the test's.
type stage struct {
	*Prover
	workers []*worker
	asked   chan string // what the API server was asked for

	upstream *httptest.Server
}

// newStage makes the API server answer with a code.
func newStage(t *testing.T, code int) *stage {
	t.Helper()
	asked := make(chan string, 99)
	s := newStageOf(t, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		w.Header().Set("Audit-Id", r.Header.Get("X-Test"))
		w.WriteHeader(code)
	})
	s.asked = asked
	return s
}

// newStageOf makes the API server answer as a test wants it, at the time of a clock.
func newStageOf(t *testing.T, c clock.Clock, answer http.HandlerFunc) *stage {
	t.Helper()
	g := NewWithT(t)
	s := &stage{Prover: &Prover{clock: c, runs: 1}, upstream: httptest.NewServer(answer)}
	t.Cleanup(s.upstream.Close)
	s.launch = func(_ context.Context, u unlike) (process, *fault.Proxy, error) {
		proxy, err := fault.NewProxy(fault.Options{Upstream: s.upstream.URL, Kubernetes: true, Clock: c})
		w := newWorker([]string{"one", "two", "three", "four", "five", "six"}[len(s.workers)])
		w.unlike = u
		s.workers = append(s.workers, w)
		return w, proxy, err
	}
	for range 2 {
		_, err := s.add(t.Context(), unlike{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	t.Cleanup(func() {
		for _, r := range s.present() {
			g.Expect(r.leave()).To(Succeed())
			g.Expect(r.proxy.Close()).To(Succeed())
		}
	})
	return s
}

// patch asks as one of the workers; 0 is no answer.
func (s *stage) patch(t *testing.T, worker int, path string) int {
	t.Helper()
	return s.ask(t, worker, http.MethodPatch, path, "")
}

// ask asks anything; the audit log knows it as id.
func (s *stage) ask(t *testing.T, worker int, method, path, id string) int {
	t.Helper()
	return askBy(t, s.replicas[worker], method, path, id)
}

// patchBy patches the thing as a replica that was started later.
func (s *stage) patchBy(t *testing.T, r *replica) int {
	t.Helper()
	return askBy(t, r, http.MethodPatch, "/things/thing-1", "")
}

func askBy(t *testing.T, r *replica, method, path, id string) int {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), method, r.proxy.URL()+path, strings.NewReader("{}"))
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("X-Test", id)
	response, err := (&http.Client{Timeout: eventually, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode
}

func planOf(t *testing.T, kind string) scenario.Plan {
	t.Helper()
	p, err := scenario.ParsePlan("s:" + kind + ":PATCH:/things/{thing}:2")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

var thing = map[string]string{"thing": "thing-1"}

func TestPerturbationsHitTheirRequestAndNoOther(t *testing.T) {
	for _, tc := range []struct {
		kind   string
		answer int // that the client got to its second request
		asked  int // requests that the API server saw, of three
		kills  int
	}{
		{"P1", 0, 3, 1},
		{"P2", 0, 2, 1},
		{"P3", 0, 3, 0},
		{"P4-409", http.StatusConflict, 2, 0},
		{"P4-504", http.StatusGatewayTimeout, 2, 0},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, http.StatusOK)
			a := s.sets(t, tc.kind)
			g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "the first")
			g.Expect(s.patch(t, 0, "/things/another")).To(Equal(http.StatusOK), "another's")
			g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(tc.answer), "the second")
			g.Eventually(func() int { _, kills := s.workers[0].counts(); return kills }, eventually).Should(Equal(tc.kills))
			g.Eventually(func() time.Time {
				requests := s.replicas[0].proxy.Journal().Requests
				return requests[len(requests)-1].Done
			}, eventually).ShouldNot(BeZero())
			f := happened(t, a)
			g.Expect(f.Replica).To(Equal("one"))
			g.Expect(f.Detail).To(Equal("PATCH /things/thing-1"))
			g.Expect(s.asked).To(HaveLen(tc.asked))
			_, kills := s.workers[1].counts()
			g.Expect(kills).To(BeZero(), "the other one lives")
			g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "it is over")
		})
	}
}

func TestOneDeathIsThePlan(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	a := s.sets(t, "P2")
	for worker, want := range []int{0, http.StatusOK} {
		g.Expect(s.patch(t, worker, "/things/thing-1")).To(Equal(http.StatusOK))
		g.Expect(s.patch(t, worker, "/things/thing-1")).To(Equal(want))
		g.Eventually(func() []spoiled { a.mu.Lock(); defer a.mu.Unlock(); return a.spoiled }, eventually).Should(HaveLen(1))
	}
	_, kills := s.workers[1].counts()
	g.Expect(kills).To(BeZero())
}

func TestWhatDidNotHappenIsVoid(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   string
		code   int // of the API server
		times  int // that the request comes
		detail string
	}{
		"NobodyCame":             {"P1", http.StatusOK, 0, "no PATCH of /things/{thing} came for the 2. time"},
		"OnlyOnce":               {"P3", http.StatusOK, 1, "no PATCH"},
		"RefusedAnyway":          {"P1", http.StatusConflict, 2, "which was answered with 409"},
		"TheLostOneWasARefusal":  {"P3", http.StatusForbidden, 2, "which was answered with 403"},
		"NothingToRefuse":        {"P4-500", http.StatusOK, 1, "no PATCH"},
		"NobodyToKillBeforehand": {"P2", http.StatusOK, 1, "no PATCH"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, tc.code)
			a := s.sets(t, tc.kind)
			for range tc.times {
				s.patch(t, 0, "/things/thing-1")
			}
			g.Expect(a.disarm()).To(Succeed())
			f := a.result()
			g.Expect(f.Happened).To(BeZero())
			g.Expect(f.Detail).To(ContainSubstring(tc.detail))
			h := &history.History{Faults: []history.Fault{f}}
			g.Expect(h.Void()).To(HaveLen(1))
		})
	}
}

func TestArmRefusesWhatNoAPIServerSays(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	_, err := s.arm(t.Context(), scenario.Scenario{}, scenario.Plan{Perturbation: scenario.Refuse, Variant: "418"}, thing)
	g.Expect(err).To(MatchError(ContainSubstring("418")))
	_, err = s.arm(t.Context(), scenario.Scenario{}, scenario.Plan{Perturbation: "P99"}, thing)
	g.Expect(err).To(MatchError(ContainSubstring(`"P99"`)))
}

func TestAProcessThatEndsIsStartedAgain(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	w, r := s.workers[0], s.replicas[0]
	r.kill()
	g.Eventually(func() int { starts, _ := w.counts(); return starts }, eventually).Should(Equal(2))
	g.Eventually(r.lived, eventually).Should(HaveLen(2))
	w.gone <- 1 // by itself
	g.Eventually(r.lived, eventually).Should(HaveLen(3))
	lives := r.lived()
	g.Expect(lives[0].Killed).To(BeTrue())
	g.Expect(lives[1].Killed).To(BeFalse())
	g.Expect(lives[1].Exit).To(Equal(1))
	g.Expect(lives[2].Ended).To(BeZero())
	// Of both workers, without the one that had been killed by then.
	g.Expect(s.told(lives[1].Started).Replicas).To(HaveLen(3))
	g.Expect(s.told(lives[0].Started).Replicas).To(HaveLen(4))
}

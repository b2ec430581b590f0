package run

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// news are an API server's watches of things.
type news struct {
	*stage
	clock *clocktesting.FakeClock

	mu      sync.Mutex
	watches []chan string // the names of things that are added
}

func newNews(t *testing.T) *news {
	t.Helper()
	n := &news{clock: clocktesting.NewFakeClock(time.Unix(1_000, 0))}
	n.stage = newStageOf(t, n.clock, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		if r.URL.Query().Get("watch") != "true" {
			return
		}
		names := make(chan string)
		n.mu.Lock()
		n.watches = append(n.watches, names)
		n.mu.Unlock()
		_ = http.NewResponseController(w).Flush() // the client says whether it came
		for {
			select {
			case name := <-names:
				_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":%q}}}`+"\n", name)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	return n
}

// watch watches things as one of the workers, from version 5; lines are what it is told.
func (n *news) watch(t *testing.T, worker int) (lines <-chan string) {
	t.Helper()
	return n.watchAt(t, worker, "/things", "")
}

func (n *news) watchAt(t *testing.T, worker int, path, query string) (lines <-chan string) {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		n.replicas[worker].proxy.URL()+path+"?watch=true&resourceVersion=5"+query, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = response.Body.Close() }) // only to end it
	told := make(chan string, 9)
	go func() {
		defer close(told)
		all := bufio.NewScanner(response.Body)
		for all.Scan() {
			told <- all.Text()
		}
	}()
	return told
}

// add tells all watches of a thing.
func (n *news) add(t *testing.T, name string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.watches {
		NewWithT(t).Eventually(w, eventually).Should(BeSent(name))
	}
}

// twice is a scenario that does something in its first and third step.
var twice = scenario.Scenario{Steps: []scenario.Step{
	{Delete: &scenario.Ref{}}, {Quiesce: &scenario.Quiesce{}}, {Delete: &scenario.Ref{}}, {Quiesce: &scenario.Quiesce{}},
}}

func (n *news) armed(t *testing.T, plan string) *armed {
	t.Helper()
	g := NewWithT(t)
	p, err := scenario.ParsePlan(plan)
	g.Expect(err).NotTo(HaveOccurred())
	a, err := n.arm(t.Context(), twice, p, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(a.disarm()).To(Succeed()) })
	return a
}

// pass lets the time go on until what has begun by itself has ended.
func (n *news) pass(t *testing.T, a *armed) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		n.clock.Step(newsFor / 2)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.lasting == 0
	}, eventually).Should(BeTrue())
}

func TestNewsAreLate(t *testing.T) {
	g := NewWithT(t)
	n := newNews(t)
	lines := n.watch(t, 0)
	a := n.armed(t, "s:P6:WATCH:/things:2")
	g.Expect(a.step(t.Context(), 0)).To(Succeed())
	g.Expect(a.step(t.Context(), 1)).To(Succeed())
	n.add(t, "early")
	g.Eventually(lines, eventually).Should(Receive(ContainSubstring("early")), "before the step")
	n.clock.Step(time.Second)
	g.Expect(a.step(t.Context(), 2)).To(Succeed())
	g.Expect(a.lasting).To(Equal(2), "at both replicas")
	n.add(t, "late")
	g.Eventually(func() bool { return a.injections[0].Happened() }, eventually).Should(BeTrue())
	g.Expect(lines).NotTo(Receive())
	n.pass(t, a)
	g.Eventually(lines, eventually).Should(Receive(ContainSubstring("late")))
	f := happened(t, a)
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(Equal("news of /things were late after step 2: ADDED late"))
	g.Expect(f.Ended.Sub(f.Began)).To(BeNumerically(">=", newsFor))
}

func TestNewsAreLost(t *testing.T) {
	g := NewWithT(t)
	n := newNews(t)
	lines := n.watch(t, 1)
	a := n.armed(t, "s:P8:WATCH:/things:1")
	g.Expect(a.step(t.Context(), 0)).To(Succeed())
	n.add(t, "lost")
	g.Eventually(func() bool { return a.injections[1].Happened() }, eventually).Should(BeTrue())
	n.pass(t, a)
	g.Eventually(lines, eventually).Should(BeClosed(), "without a line")
	f := happened(t, a)
	g.Expect(f.Replica).To(Equal("two"))
}

func TestNewsAreMissed(t *testing.T) {
	g := NewWithT(t)
	n := newNews(t)
	lines := n.watch(t, 0)
	a := n.armed(t, "s:P7:WATCH:/things:1")
	g.Expect(a.step(t.Context(), 0)).To(Succeed())
	g.Eventually(lines, eventually).Should(BeClosed())
	g.Expect(n.ask(t, 0, http.MethodGet, "/things?watch=true&resourceVersion=5", "")).To(Equal(http.StatusTooManyRequests))
	n.clock.Step(newsFor)
	g.Eventually(func(g Gomega) {
		g.Eventually(n.watch(t, 0), eventually).Should(Receive(ContainSubstring(`"code":410`)))
	}, eventually).Should(Succeed())
	g.Expect(n.ask(t, 0, http.MethodGet, "/things", "")).To(Equal(http.StatusOK))
	n.pass(t, a)
	f := happened(t, a)
	g.Expect(f.Detail).To(Equal("news of /things were missed after step 1: it was listed anew"))
}

func TestNewsThatNobodyWaitedForAreVoid(t *testing.T) {
	for _, kind := range []string{"P6", "P7", "P8"} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			n := newNews(t)
			a := n.armed(t, "s:"+kind+":WATCH:/things:1")
			g.Expect(a.step(t.Context(), 0)).To(Succeed())
			n.pass(t, a)
			g.Expect(void(t, a)).To(ContainSubstring("no news of /things were"))
		})
	}
}

// Who does not ask again is not waited for without an end.
func TestNewsThatAreNotAskedForAgainAreVoid(t *testing.T) {
	g := NewWithT(t)
	n := newNews(t)
	lines := n.watch(t, 0)
	a := n.armed(t, "s:P7:WATCH:/things:1")
	g.Expect(a.step(t.Context(), 0)).To(Succeed())
	g.Eventually(lines, eventually).Should(BeClosed())
	n.pass(t, a)
	g.Expect(void(t, a)).To(Equal("no news of /things were missed after step 1"))
}

func TestPlansOfStepsThatThereAreNot(t *testing.T) {
	for _, id := range []string{"s:P6:WATCH:/things:3", "s:P15-stall:START:/things:0"} {
		p, err := scenario.ParsePlan(id)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = newNews(t).arm(t.Context(), twice, p, nil)
		g.Expect(err).To(MatchError(ContainSubstring("there are 2")))
	}
}

func TestNewsAreOfTheRunAndSoonAfterAStep(t *testing.T) {
	g := NewWithT(t)
	n := newNews(t)
	run := &trial{prover: n.Prover}
	n.watch(t, 0)
	n.watch(t, 1)
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	told := 0
	tell := func(name string) {
		told++
		n.add(t, name)
		for _, r := range n.replicas {
			g.Eventually(func() int { return len(r.proxy.Journal().Frames) }, eventually).Should(Equal(told))
		}
	}
	tell("thing-1-before")
	for _, names := range [][]string{{"thing-1-a", "other"}, {"other"}, {"thing-1-a", "thing-1-b"}} {
		n.clock.Step(time.Minute)
		run.acted = append(run.acted, n.clock.Now())
		n.clock.Step(time.Second)
		for _, name := range names {
			tell(name)
		}
	}
	n.clock.Step(time.Minute)
	run.acted = append(run.acted, n.clock.Now())
	n.clock.Step(newsFor)
	tell("thing-1-late")
	g.Expect(run.news(h)).To(Equal([]scenario.News{{Path: "/things", Action: 1}, {Path: "/things", Action: 3}}))
}

func TestStartsAreRaced(t *testing.T) {
	for variant, want := range map[string]int{"stall": http.StatusOK, "403": http.StatusForbidden, "404": http.StatusNotFound} {
		t.Run(variant, func(t *testing.T) {
			g := NewWithT(t)
			n := newNews(t)
			a := n.armed(t, "s:P15-"+variant+":START:/things:1")
			g.Expect(a.step(t.Context(), 0)).To(Succeed())
			for _, w := range n.workers {
				_, kills := w.counts()
				g.Expect(kills).To(Equal(1), "all of them")
			}
			answers := make(chan int, 1)
			go func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.replicas[0].proxy.URL()+"/things", strings.NewReader(""))
				if err != nil {
					return // no answer is told of
				}
				response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
				if err != nil {
					return
				}
				defer response.Body.Close()
				if _, err := io.Copy(io.Discard, response.Body); err == nil {
					answers <- response.StatusCode
				}
			}()
			if variant == scenario.NoAnswer {
				g.Consistently(answers, 50*time.Millisecond).ShouldNot(Receive())
			} else {
				g.Eventually(answers, eventually).Should(Receive(Equal(want)))
			}
			g.Eventually(func() bool { return a.injections[0].Happened() && n.clock.HasWaiters() }, eventually).Should(BeTrue())
			n.clock.Step(raceFor)
			if variant == scenario.NoAnswer {
				g.Eventually(answers, eventually).Should(Receive(Equal(want)))
			}
			g.Eventually(func() []history.Fault { a.mu.Lock(); defer a.mu.Unlock(); return a.happenings }, eventually).Should(HaveLen(1))
			g.Expect(n.ask(t, 0, http.MethodGet, "/things", "")).To(Equal(http.StatusOK), "it is over")
			g.Expect(a.disarm()).To(Succeed(), "though the other has not asked")
			f := a.result()
			g.Expect(f.Happened).To(Equal(1))
			g.Expect(f.Replica).To(Equal("one"))
			g.Expect(f.Detail).To(ContainSubstring("GET /things met " + variant))
		})
	}
}

// A request of the process that was killed is not one of a start.
func TestStartsThatNobodyMakesAreVoid(t *testing.T) {
	g := NewWithT(t)
	n := newNews(t)
	a := n.armed(t, "s:P15-403:START:/things:2")
	g.Expect(n.ask(t, 0, http.MethodGet, "/things", "")).To(Equal(http.StatusOK))
	g.Expect(a.step(t.Context(), 0)).To(Succeed())
	g.Expect(a.step(t.Context(), 2)).To(Succeed())
	g.Expect(void(t, a)).To(ContainSubstring("did not ask for /things"))
}

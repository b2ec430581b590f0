package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// depot is a system outside the cluster that has things by their paths.
type depot struct {
	proxy  *fault.Proxy
	things []history.Thing

	mu     sync.Mutex
	caller string   // who opens the next connection
	asked  []string // what came to it
	done   []string // what others have changed
}

func (d *depot) Proxy() *fault.Proxy { return d.proxy }
func (d *depot) Values() (open, secret map[string]string) {
	return map[string]string{"depot.url": d.proxy.URL()}, map[string]string{"depot.key": "k"}
}

func (d *depot) Do(_ context.Context, change, thing string) error {
	if change != "put" {
		return errors.New("no such change")
	}
	d.done = append(d.done, change+" "+thing)
	return nil
}

func (d *depot) Look(context.Context) ([]history.Thing, error) { return d.things, nil }
func (d *depot) Read(r fault.Request) (history.Call, bool) {
	call := history.Call{Action: history.Look, Thing: strings.Trim(r.Path, "/"), Outcome: history.Done}
	if r.Mutating() {
		call.Action, call.Owner = history.Create, "u1"
	}
	return call, call.Thing != ""
}

func (d *depot) Refusal(code int) (fault.Answer, error) {
	if code != http.StatusServiceUnavailable {
		return fault.Answer{}, errors.New("it never says that")
	}
	return fault.S3Error(code, "SlowDown"), nil
}
func (d *depot) Stop() error { return d.proxy.Close() }

// came are the requests that were not stopped on their way.
func (d *depot) came() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.asked...)
}

// withDepot gives a stage something outside, which answers with a code.
func withDepot(t *testing.T, s *stage, code int) *depot {
	t.Helper()
	g := NewWithT(t)
	d := &depot{caller: "one"}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked = append(d.asked, r.Method+" "+r.URL.String())
		w.WriteHeader(code)
	}))
	t.Cleanup(upstream.Close)
	var err error
	d.proxy, err = fault.NewProxy(fault.Options{Upstream: upstream.URL, Peer: func(string, string) string {
		d.mu.Lock()
		defer d.mu.Unlock()
		return s.owner(d.caller, "")
	}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(d.Stop()).To(Succeed()) })
	s.external = d
	return d
}

// call asks the depot as one of the workers does; 0 is no answer.
func (d *depot) call(t *testing.T, caller, method, path string) int {
	t.Helper()
	d.mu.Lock()
	d.caller = caller
	d.mu.Unlock()
	request, err := http.NewRequestWithContext(t.Context(), method, d.proxy.URL()+path, http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	response, err := (&http.Client{Timeout: eventually, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return response.StatusCode
}

func callPlan(t *testing.T, variant, target string) scenario.Plan {
	t.Helper()
	p, err := scenario.ParsePlan("s:P5-" + variant + ":" + target)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

func TestCallsToTheOutsideFailInTheirWay(t *testing.T) {
	for _, tc := range []struct {
		variant string
		answer  int // that the caller got to its second call
		came    int // of three calls
		kills   int
	}{
		{"die-after", 0, 3, 1},
		{"die-before", 0, 2, 1},
		{"lose", 0, 3, 0},
		{"503", http.StatusServiceUnavailable, 2, 0},
		{"slow", http.StatusOK, 3, 0},
	} {
		t.Run(tc.variant, func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, http.StatusOK)
			d := withDepot(t, s, http.StatusOK)
			a := s.setsPlan(t, callPlan(t, tc.variant, "PUT:/{thing}:2"))
			g.Expect(d.call(t, "two", http.MethodPut, "/thing-1")).To(Equal(http.StatusOK), "the first")
			g.Expect(d.call(t, "one", http.MethodPut, "/thing-1?tag=x")).To(Equal(http.StatusOK), "another one")
			g.Expect(d.call(t, "two", http.MethodPut, "/thing-1")).To(Equal(tc.answer), "the second")
			g.Eventually(func() int { _, kills := s.workers[1].counts(); return kills }, eventually).Should(Equal(tc.kills))
			g.Eventually(func() time.Time {
				requests := d.proxy.Journal().Requests
				return requests[len(requests)-1].Done
			}, eventually).ShouldNot(BeZero())
			f := happened(t, a)
			g.Expect(f.Replica).To(Equal("two"), "whose call it was")
			g.Expect(f.Detail).To(Equal("PUT /thing-1"))
			g.Expect(d.came()).To(HaveLen(tc.came))
			_, kills := s.workers[0].counts()
			g.Expect(kills).To(BeZero(), "the other one lives")
			g.Expect(d.call(t, "two", http.MethodPut, "/thing-1")).To(Equal(http.StatusOK), "it is over")
		})
	}
}

func TestCallsThatDoNotFailAreVoid(t *testing.T) {
	for name, tc := range map[string]struct {
		variant, target string
		code            int // of the depot
		caller          string
		times           int
		detail          string
	}{
		"NobodyCame":              {"lose", "PUT:/{thing}:2", http.StatusOK, "one", 1, "no PUT of /{thing} came for the 2. time"},
		"AnotherQuery":            {"lose", "PUT:/{thing}?tag:1", http.StatusOK, "one", 1, "no PUT of /{thing}?tag came"},
		"NobodyKnowsWho":          {"die-after", "PUT:/{thing}:2", http.StatusOK, "nobody", 2, "who had sent it could not be told"},
		"NobodyKnowsWhoHasSent":   {"die-before", "PUT:/{thing}:2", http.StatusOK, "nobody", 2, "who had sent it could not be told"},
		"TheLostOneWasARefusal":   {"lose", "PUT:/{thing}:2", http.StatusForbidden, "one", 2, "which was answered with 403"},
		"RefusedBeforeTheDeath":   {"die-after", "PUT:/{thing}:2", http.StatusConflict, "one", 2, "which was answered with 409"},
		"TheLateOneIsARefusalToo": {"slow", "PUT:/{thing}:2", http.StatusForbidden, "one", 2, "which was answered with 403"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, http.StatusOK)
			d := withDepot(t, s, tc.code)
			a := s.setsPlan(t, callPlan(t, tc.variant, tc.target))
			for range tc.times {
				d.call(t, tc.caller, http.MethodPut, "/thing-1")
			}
			g.Expect(void(t, a)).To(ContainSubstring(tc.detail))
		})
	}
}

// What only looks is lost as well if the answer is no.
func TestALookIsLostWhateverItsAnswer(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	d := withDepot(t, s, http.StatusNotFound)
	a := s.setsPlan(t, callPlan(t, "lose", "GET:/{thing}?list&max:1"))
	g.Expect(d.call(t, "one", http.MethodGet, "/thing-1?max=1&list=2")).To(BeZero())
	g.Expect(a.disarm()).To(Succeed())
	g.Expect(a.result().Happened).To(Equal(1))
}

func TestNothingOutsideIsNothingToFail(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	_, err := s.arm(t.Context(), scenario.Scenario{}, callPlan(t, "lose", "PUT:/{thing}:1"), thing)
	g.Expect(err).To(MatchError(ContainSubstring("nothing outside")))
	withDepot(t, s, http.StatusOK)
	_, err = s.arm(t.Context(), scenario.Scenario{}, callPlan(t, "500", "PUT:/{thing}:1"), thing)
	g.Expect(err).To(MatchError(ContainSubstring("it never says that")))
}

func TestARunKnowsWhatIsOutside(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	d := withDepot(t, s, http.StatusOK)
	d.things = []history.Thing{{Name: "old", Owner: "u0"}}
	d.call(t, "one", http.MethodPut, "/before")
	wants := func(text string) scenario.Scenario {
		of, err := scenario.Parse([]byte("name: a\nsteps:\n- apply: {kind: " + text + "}\n- {name: end, quiesce: {for: 1s}}\n"))
		g.Expect(err).NotTo(HaveOccurred())
		return of
	}
	run := &trial{prover: s.Prover, names: map[string]string{"thing": "thing-1"}}
	g.Expect(run.meetExternal(t.Context(), wants(`"{depot.gate}"`))).To(MatchError(ContainSubstring("{depot.gate}")))
	g.Expect(run.meetExternal(t.Context(), wants(`"{depot.url}"`))).To(Succeed())
	g.Expect(run.fillings()).To(Equal(map[string]string{"thing": "thing-1", "depot.url": d.proxy.URL(), "depot.key": "k"}))
	g.Expect(run.aliases()).To(Equal(map[string]string{"thing-1": "{thing}", d.proxy.URL(): "{depot.url}"}), "no secret is written down")

	t.Log("what was there before is not the run's")
	d.things = append(d.things, history.Thing{Name: "thing-1", Owner: "u1"})
	var mark history.Mark
	g.Expect(run.look(t.Context(), &mark)).To(Succeed())
	g.Expect(mark.Looked).To(BeTrue())
	g.Expect(mark.Things).To(Equal([]history.Thing{{Name: "thing-1", Owner: "u1"}}))

	t.Log("others change it by steps")
	g.Expect(run.try(t.Context(), run.prover.client, scenario.Step{External: map[string]string{"put": "x"}})).To(Succeed())
	g.Expect(d.done).To(Equal([]string{"put x"}))
	g.Expect(run.try(t.Context(), run.prover.client, scenario.Step{External: map[string]string{"paint": "x"}})).To(MatchError("no such change"))
	bare := &trial{prover: &Prover{clock: clock.RealClock{}}}
	g.Expect(bare.try(t.Context(), bare.prover.client, scenario.Step{External: map[string]string{"put": "x"}})).To(MatchError(ContainSubstring("nothing outside")))
	g.Expect(bare.look(t.Context(), &mark)).To(Succeed())
	g.Expect(bare.calls(&history.History{}).Recorded).To(BeEmpty())
}

func TestCallsAreOfTheRun(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	d := withDepot(t, s, http.StatusOK)
	d.call(t, "one", http.MethodPut, "/thing-1")
	run := &trial{prover: s.Prover, names: map[string]string{"thing": "thing-1"}}
	g.Expect(run.meetExternal(t.Context(), scenario.Scenario{})).To(Succeed())
	began := time.Now()
	d.call(t, "one", http.MethodGet, "/thing-1/?list=2&max=1")
	d.call(t, "nobody", http.MethodPut, "/another")
	d.call(t, "one", http.MethodGet, "/")
	cut := d.proxy.Inject(fault.Rule{Match: fault.Match{To: 1}, Fault: fault.Cut{}})
	d.call(t, "two", http.MethodPut, "/thing-1")
	cut.Heal()
	lost := d.proxy.Inject(fault.Rule{Match: fault.Match{To: 1}, Fault: fault.Cut{At: fault.AfterAnswer}})
	d.call(t, "two", http.MethodPut, "/thing-1")
	lost.Heal()
	h := &history.History{Aliases: run.aliases(), Requests: []history.Request{
		{Span: history.At(5), Effect: history.Stored, Received: began.Add(-time.Second), Answered: began},
		{Span: history.At(6), Effect: history.Stored, Received: time.Now(), Answered: time.Now()},
	}}
	g.Eventually(func() int { return len(run.calls(h).Calls) }, eventually).Should(Equal(4))
	got := run.calls(h)
	g.Expect(got.Recorded).To(Equal([]history.Source{history.External}))
	var texts []string
	for _, c := range got.Calls {
		texts = append(texts, fmt.Sprintf("%s: delivered %t", c, c.Delivered))
	}
	const span = "between resourceVersions 5 and 6"
	g.Expect(texts).To(Equal([]string{
		"look of external thing-1 for UID (none) by replica one " + span + ": done: delivered true",
		"create of external another for UID u1 by replica (none) " + span + ": done: delivered true",
		"create of external thing-1 for UID u1 by replica two " + span + ": failed: delivered false",
		"create of external thing-1 for UID u1 by replica two " + span + ": done: delivered false",
	}))
	g.Expect(run.observedCalls(h)).To(Equal([]scenario.Call{
		{Method: http.MethodGet, Path: "/{thing}?list&max", Answered: true},
		{Method: http.MethodPut, Path: "/{thing}"},
		{Method: http.MethodPut, Path: "/{thing}", Changed: true, Answered: true},
	}))
}

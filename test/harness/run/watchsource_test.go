package run

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/scenario"
)

const collection = "/apis/example.com/v1/things"

var thingKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

// get sends a request as the first worker and returns the code and the body; 0 is no answer.
func (n *watchSource) get(t *testing.T, query string) (int, string) {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.replicas[0].proxy.URL()+collection+query,
		http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(body)
}

func newThing(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(thingKind)
	u.SetName(name)
	return u
}

// watchSource are an API server's watches of things.
type watchSource struct {
	*testbed
	clock *clocktesting.FakeClock

	mu      sync.Mutex
	watches []chan string // the names of things that are added
}

func newWatchSource(t *testing.T) *watchSource {
	t.Helper()
	n := &watchSource{clock: clocktesting.NewFakeClock(time.Unix(1_000, 0))}
	n.testbed = newTestbedWith(t, n.clock, func(w http.ResponseWriter, r *http.Request) {
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

// watch watches things as one of the workers, from version 5; lines are the events that it
// receives.
func (n *watchSource) watch(t *testing.T, worker int) (lines <-chan string) {
	t.Helper()
	return n.watchAt(t, worker, "/things", "")
}

func (n *watchSource) watchAt(t *testing.T, worker int, path, query string) (lines <-chan string) {
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

// send sends an object to all watches.
func (n *watchSource) send(t *testing.T, name string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.watches {
		NewWithT(t).Eventually(w, testTimeout).Should(BeSent(name))
	}
}

// twoActions is a scenario that does something in its first and third step.
var twoActions = scenario.Scenario{Steps: []scenario.Step{
	{Delete: &scenario.Ref{}}, {Quiesce: &scenario.Quiesce{}}, {Delete: &scenario.Ref{}}, {Quiesce: &scenario.Quiesce{}},
}}

func (n *watchSource) injectID(t *testing.T, plan string) *activeFault {
	t.Helper()
	g := NewWithT(t)
	p, err := ParsePlan(plan)
	g.Expect(err).NotTo(HaveOccurred())
	a, err := n.inject(t.Context(), twoActions, p, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(a.heal()).To(Succeed()) })
	return a
}

// waitUntilOver lets the time go on until what has begun by itself has ended.
func (n *watchSource) waitUntilOver(t *testing.T, a *activeFault) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		n.clock.Step(silenceFor / 2)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.ongoing == 0
	}, testTimeout).Should(BeTrue())
}

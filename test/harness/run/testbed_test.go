// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bufio"
	"context"
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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const (
	// testTimeout is the timeout for conditions that take well under a second.
	testTimeout = 30 * time.Second
	thingPath   = "/things/thing-1"
	leasePath   = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease"
)

// testbed is a Prover of two replicas with a fake API server of the test.
type testbed struct {
	*Prover
	*WithT

	t         *testing.T
	processes []*fakeProcess
	store     *externalStore // nil if there is none
	fault     *activeFault
	stopped   *clocktesting.FakeClock // nil: time passes
	answer    <-chan int              // to the request in the background
	requests  chan string             // the first 99 requests that the API server received
	upstream  *httptest.Server
	code      atomic.Int64 // of the API server's answers

	lists sync.Map // the API server's answers to lists, by label selector

	watchesMu sync.Mutex
	watches   []chan string // the names of things that are added
}

// newTestbed has an API server that answers each request with 200, and a watch with the things that are sent.
func newTestbed(t *testing.T) *testbed {
	t.Helper()
	return newTestbedAt(t, clock.RealClock{})
}

// newStoppedTestbed is one at which time passes by steps of the test, for proxies too.
func newStoppedTestbed(t *testing.T) *testbed {
	t.Helper()
	stopped := clocktesting.NewFakeClock(time.Unix(1_000, 0))
	s := newTestbedAt(t, stopped)
	s.stopped = stopped
	return s
}

func newTestbedAt(t *testing.T, c clock.Clock) *testbed {
	t.Helper()
	s := &testbed{Prover: newExecution(t, interceptor.Funcs{}).prover, WithT: NewWithT(t), t: t,
		requests: make(chan string, 99)}
	s.clock, s.runs, s.failover = c, 1, recoveryTimeout
	s.SetDefaultEventuallyTimeout(testTimeout)
	s.code.Store(http.StatusOK)
	s.upstream = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.upstream.Close)
	var err error
	s.raw, err = rest.UnversionedRESTClientFor(&rest.Config{Host: s.upstream.URL,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: clientgoscheme.Codecs}})
	s.Expect(err).NotTo(HaveOccurred())
	s.startReplica = func(_ context.Context, u replicaOverrides) (process, *fault.Proxy, error) {
		proxy, err := fault.NewProxy(fault.Options{Upstream: s.upstream.URL, Kubernetes: true, Clock: c})
		w := newFakeProcess([]string{"one", "two", "three", "four", "five", "six"}[len(s.processes)])
		w.overrides = u
		s.processes = append(s.processes, w)
		return w, proxy, err
	}
	for range 2 {
		s.add()
	}
	t.Cleanup(func() {
		for _, r := range s.running() {
			s.Expect(r.release()).To(Succeed())
			s.Expect(r.proxy.Close()).To(Succeed())
		}
	})
	return s
}

func (s *testbed) serve(w http.ResponseWriter, r *http.Request) {
	select {
	case s.requests <- r.Method + " " + r.URL.Path:
	default: // no test reads so many; the response never waits for a reader
	}
	w.Header().Set("Audit-Id", r.Header.Get("X-Test"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(s.code.Load()))
	if r.URL.Query().Get("watch") != "true" {
		if list, there := s.lists.Load(r.URL.Query().Get("labelSelector")); there {
			_, _ = fmt.Fprint(w, list)
		}
		return
	}
	names := make(chan string)
	s.watchesMu.Lock()
	s.watches = append(s.watches, names)
	s.watchesMu.Unlock()
	_ = http.NewResponseController(w).Flush() // the client detects errors
	for {
		select {
		case name := <-names:
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":%q}}}`+"\n", name)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// newElection is a testbed with objects, on which replica one leads.
func newElection(t *testing.T) *testbed {
	t.Helper()
	s := newTestbed(t)
	s.addObjects()
	return s
}

// addObjects adds the Lease of replica one and the Pods of both.
func (s *testbed) addObjects() {
	o := &coordinationv1.Lease{}
	o.Namespace, o.Name = lease.Namespace, lease.Name
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = new("host_1"), new(int32(1))
	s.Expect(s.client.Create(s.t.Context(), o)).To(Succeed())
	for _, w := range s.processes {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}}}
		pod.Namespace, pod.Name, pod.UID = lease.Namespace, w.name, types.UID(w.name+"-uid")
		s.Expect(s.client.Create(s.t.Context(), pod)).To(Succeed())
	}
}

// add starts one more replica.
func (s *testbed) add() *replica {
	r, err := s.addReplica(s.t.Context(), replicaOverrides{})
	s.Expect(err).NotTo(HaveOccurred())
	return r
}

// lead makes a replica write the Lease, which it holds from then on.
func (s *testbed) lead(worker int) { s.renewLease(s.client, worker) }

func (s *testbed) renewLease(store client.Client, worker int) {
	o := &coordinationv1.Lease{}
	s.Expect(store.Get(s.t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: lease.Name}, o)).To(Succeed())
	o.Spec.HolderIdentity = new(fmt.Sprintf("host_%d", worker+1)) // an identity need not be the Pod's
	s.Expect(store.Update(s.t.Context(), o)).To(Succeed())
	s.request(worker, http.MethodPut, leasePath, "")
}

// beforeRead calls do with the store before each read of an object.
func (s *testbed) beforeRead(do func(store client.Client)) {
	s.client = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			do(c)
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// renewInBackground makes replica one renew the Lease on each read of it.
func (s *testbed) renewInBackground() {
	s.beforeRead(func(store client.Client) { s.renewLease(store, 0) })
}

// stopClock makes the run's waits end when the test steps the clock. Proxies go on.
func (s *testbed) stopClock() {
	s.stopped = clocktesting.NewFakeClock(time.Now())
	s.clock = s.stopped
}

// advance lets one wait that there is, or will be, end.
func advance(t *testing.T, c *clocktesting.FakeClock, d time.Duration) {
	t.Helper()
	NewWithT(t).Eventually(c.HasWaiters, testTimeout).Should(BeTrue())
	c.Step(d)
}

// steps is the scenario of the testbed. It acts in its first and third step.
var steps = scenario.Scenario{Name: "s", Steps: []scenario.Step{
	{Name: "end", Delete: new(refTo("settings"))}, {Quiesce: &scenario.Quiesce{}},
	{Delete: new(refTo("settings"))}, {Quiesce: &scenario.Quiesce{}},
}}

// inject sets the fault of a plan up. An ID without a target is about the second PATCH of the thing.
func (s *testbed) inject(id string) *activeFault {
	if !strings.Contains(id, scenario.Separator) {
		id += ":PATCH:/things/{thing}:2"
	}
	plan, err := ParsePlan("s:" + id)
	s.Expect(err).NotTo(HaveOccurred())
	s.fault, err = s.newExecution().inject(s.t.Context(), steps, plan)
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { _ = s.fault.heal() })
	return s.fault
}

func (s *testbed) newExecution() *execution {
	return &execution{prover: s.Prover, names: map[string]string{"thing": "thing-1"}}
}

// step does what the fault does before a step.
func (s *testbed) step(n int) { s.fault.beginStep(n) }

func (s *testbed) heal() { s.Expect(s.fault.heal()).To(Succeed()) }

// occurrences returns how often the fault has been recorded.
func (s *testbed) occurrences() int {
	s.fault.mu.Lock()
	defer s.fault.mu.Unlock()
	return len(s.fault.occurrences)
}

func (s *testbed) ongoing() int {
	s.fault.mu.Lock()
	defer s.fault.mu.Unlock()
	return s.fault.ongoing
}

// waitUntilOver lets the time go on until what has begun by itself has ended.
func (s *testbed) waitUntilOver() {
	s.Eventually(func() int { s.stopped.Step(silenceFor / 2); return s.ongoing() }).Should(BeZero())
}

// send sends a request and returns the code and the body of the answer; 0 is no answer.
func send(ctx context.Context, method, url, id string) (code int, body string) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("X-Test", id)
	response, err := (&http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// request sends a request as a replica; id is its ID in the audit log.
func (s *testbed) request(worker int, method, path, id string) int {
	code, _ := send(s.t.Context(), method, s.running()[worker].proxy.URL()+path, id)
	return code
}

func (s *testbed) patch(worker int, path string) int {
	return s.request(worker, http.MethodPatch, path, "")
}

// beginTarget sends the target request of plans from replica one without waiting for the response.
func (s *testbed) beginTarget() {
	s.Expect(s.patch(0, thingPath)).To(Equal(http.StatusOK), "the first")
	s.answer = inBackground(func() int { return s.patch(0, thingPath) })
}

// inBackground begins to do something, and delivers its result later.
func inBackground[T any](do func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- do() }()
	return result
}

func (s *testbed) waitForAnswer() { s.Eventually(s.answer).Should(Receive(Equal(http.StatusOK))) }

// sendTarget sends the request that plans are about and waits for the answer.
func (s *testbed) sendTarget() { s.beginTarget(); s.waitForAnswer() }

// expectCut expects that a fault meets a request of a replica for its Lease.
func (s *testbed) expectCut(worker int) {
	proxy := s.running()[worker].proxy
	s.Eventually(func() []fault.ProxiedRequest {
		ctx, cancel := context.WithTimeout(s.t.Context(), 100*time.Millisecond) // a request that is met has no answer
		defer cancel()
		_, _ = send(ctx, http.MethodGet, proxy.URL()+leasePath, "")
		return proxy.Journal().Requests
	}).Should(ContainElement(And(HaveField("Path", leasePath), HaveField("Rule", Not(BeEmpty())))))
}

func (s *testbed) expectReached(worker int, path string) {
	s.Expect(s.request(worker, http.MethodGet, path, "")).To(Equal(http.StatusOK))
}

// watch watches a collection as a replica, from version 5; lines are the events that it receives.
func (s *testbed) watch(worker int, path, query string) (lines <-chan string) {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet,
		s.running()[worker].proxy.URL()+path+"?watch=true&resourceVersion=5"+query, http.NoBody)
	s.Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Do(request)
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { _ = response.Body.Close() }) // only to end it
	received := make(chan string, 9)
	go func() {
		defer close(received)
		for all := bufio.NewScanner(response.Body); all.Scan(); {
			received <- all.Text()
		}
	}()
	return received
}

// sendEvent sends an object to all watches.
func (s *testbed) sendEvent(name string) {
	s.watchesMu.Lock()
	defer s.watchesMu.Unlock()
	for _, w := range s.watches {
		s.Eventually(w).Should(BeSent(name))
	}
}

func (s *testbed) names() []string {
	var all []string
	for _, r := range s.running() {
		all = append(all, r.process.Name())
	}
	return all
}

// lifetime is the first process of a replica.
func (s *testbed) lifetime(name string) history.Process {
	for _, life := range s.historySince(time.Time{}).Replicas {
		if life.Name == name {
			return life
		}
	}
	return history.Process{}
}

package run

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease"

// newElection is a stage on which worker one leads.
func newElection(t *testing.T) *testbed {
	t.Helper()
	s := newTestbed(t, http.StatusOK)
	s.subject.Contract.Lease = lease
	s.client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	o := &coordinationv1.Lease{}
	o.Namespace, o.Name = lease.Namespace, lease.Name
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = new("host_1"), new(int32(1))
	NewWithT(t).Expect(s.client.Create(t.Context(), o)).To(Succeed())
	for _, w := range s.processes {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}}}
		pod.Namespace, pod.Name, pod.UID = lease.Namespace, w.name, types.UID(w.name+"-uid")
		NewWithT(t).Expect(s.client.Create(t.Context(), pod)).To(Succeed())
	}
	return s
}

// setHolder makes worker two the leader.
func (s *testbed) setHolder(t *testing.T) {
	t.Helper()
	s.renewLease(t, s.client, 1)
}

// renewLease makes a worker write the Lease, which it holds from then on.
func (s *testbed) renewLease(t *testing.T, store client.Client, worker int) {
	t.Helper()
	g := NewWithT(t)
	o := &coordinationv1.Lease{}
	g.Expect(store.Get(t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: lease.Name}, o)).To(Succeed())
	o.Spec.HolderIdentity = new(fmt.Sprintf("host_%d", worker+1)) // an identity need not be the Pod's
	g.Expect(store.Update(t.Context(), o)).To(Succeed())
	s.request(t, worker, http.MethodPut, leasePath, "")
}

// renewInBackground makes a worker renew the Lease on each read of it.
func (s *testbed) renewInBackground(t *testing.T, worker int) {
	t.Helper()
	stored, ok := s.client.(client.WithWatch)
	NewWithT(t).Expect(ok).To(BeTrue())
	s.client = interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			s.renewLease(t, c, worker)
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// useFakeClock makes the run's waits end when the test steps the clock.
func (s *testbed) useFakeClock() *clocktesting.FakeClock {
	stopped := clocktesting.NewFakeClock(time.Now())
	s.clock = stopped
	return stopped
}

// advance lets one wait that there is, or will be, end.
func advance(t *testing.T, c *clocktesting.FakeClock, d time.Duration) {
	t.Helper()
	NewWithT(t).Eventually(c.HasWaiters, testTimeout).Should(BeTrue())
	c.Step(d)
}

// injectKind arms a plan about the second PATCH of the thing.
func (s *testbed) injectKind(t *testing.T, kind string) *activeFault {
	t.Helper()
	return s.injectPlan(t, planOf(t, kind))
}

// inject sets a plan's fault up in a run with these names.
func (s *testbed) inject(ctx context.Context, of scenario.Scenario, plan Plan,
	names map[string]string) (*activeFault, error) {
	return (&execution{prover: s.Prover, names: names}).inject(ctx, of, plan)
}

func (s *testbed) injectPlan(t *testing.T, plan Plan) *activeFault {
	t.Helper()
	g := NewWithT(t)
	a, err := s.inject(t.Context(), scenario.Scenario{}, plan, thing)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(a.heal()).To(Succeed()) })
	return a
}

// patchInBackground sends the request that the plan is about, by worker one, and goes on.
func (s *testbed) patchInBackground(t *testing.T) <-chan int {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "the first")
	code := make(chan int, 1)
	go func() { code <- s.patch(t, 0, "/things/thing-1") }()
	return code
}

// isUnreachable reports whether a fault meets the request of a worker before it has an answer.
func (s *testbed) isUnreachable(t *testing.T, worker int, path string) bool {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	proxy := s.replicas[worker].proxy
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, proxy.URL()+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("X-Test", string(uuid.NewUUID()))
	ended := make(chan error, 1)
	go func() {
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		ended <- err
	}()
	isMet := func(r fault.Request) bool {
		return r.Rule != "" && r.Header.Get("X-Test") == request.Header.Get("X-Test")
	}
	isLost := false
	g.Eventually(func() bool {
		select {
		case err := <-ended:
			isLost = err != nil
			return true
		default:
			isLost = slices.ContainsFunc(proxy.Journal().Requests, isMet)
			return isLost
		}
	}, testTimeout).Should(BeTrue(), "it is answered, or a fault meets it")
	return isLost
}

// isCutFrom reports whether the first worker is cut off from a path.
func (s *testbed) isCutFrom(t *testing.T, path string) func() bool {
	t.Helper()
	return func() bool { return s.isUnreachable(t, 0, path) }
}

// healAndGetFault heals the fault and returns the one that was recorded.
func healAndGetFault(t *testing.T, a *activeFault) history.Fault {
	t.Helper()
	g := NewWithT(t)
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(a.heal()).To(Succeed())
	f := a.result()
	g.Expect(f.Happened).To(Equal(1), f.Detail)
	g.Expect(f.Ended).To(BeTemporally(">=", f.Began))
	return f
}

// healAndGetVoidReason heals the fault and returns why it did not happen.
func healAndGetVoidReason(t *testing.T, a *activeFault) string {
	t.Helper()
	g := NewWithT(t)
	g.Expect(a.heal()).To(Succeed())
	f := a.result()
	g.Expect(f.Happened).To(BeZero())
	return f.Detail
}

// testbed is a Prover of two workers whose API server is the test's.
type testbed struct {
	*Prover
	processes []*fakeProcess
	requests  chan string // the first 99 requests that the API server received

	upstream *httptest.Server
}

// newTestbed makes the API server answer with a code.
func newTestbed(t *testing.T, code int) *testbed {
	t.Helper()
	asked := make(chan string, 99)
	s := newTestbedWith(t, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Method + " " + r.URL.Path:
		default: // no test reads so many; the answer never waits for a reader
		}
		w.Header().Set("Audit-Id", r.Header.Get("X-Test"))
		w.WriteHeader(code)
	})
	s.requests = asked
	return s
}

// newTestbedWith makes the API server answer as a test wants it, at the time of a clock.
func newTestbedWith(t *testing.T, c clock.Clock, answer http.HandlerFunc) *testbed {
	t.Helper()
	g := NewWithT(t)
	s := &testbed{Prover: &Prover{clock: c, runs: 1, timeouts: defaultTimeouts}, upstream: httptest.NewServer(answer)}
	t.Cleanup(s.upstream.Close)
	s.startReplica = func(_ context.Context, u replicaOverrides) (process, *fault.Proxy, error) {
		proxy, err := fault.NewProxy(fault.Options{Upstream: s.upstream.URL, Kubernetes: true, Clock: c})
		w := newFakeProcess([]string{"one", "two", "three", "four", "five", "six"}[len(s.processes)])
		w.overrides = u
		s.processes = append(s.processes, w)
		return w, proxy, err
	}
	for range 2 {
		_, err := s.addReplica(t.Context(), replicaOverrides{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	t.Cleanup(func() {
		for _, r := range s.running() {
			g.Expect(r.release()).To(Succeed())
			g.Expect(r.proxy.Close()).To(Succeed())
		}
	})
	return s
}

// patch sends a PATCH as one of the workers; 0 is no answer.
func (s *testbed) patch(t *testing.T, worker int, path string) int {
	t.Helper()
	return s.request(t, worker, http.MethodPatch, path, "")
}

// request sends a request; id is its ID in the audit log.
func (s *testbed) request(t *testing.T, worker int, method, path, id string) int {
	t.Helper()
	return requestBy(t, s.replicas[worker], method, path, id)
}

// patchBy patches the thing as a replica that was started later.
func (s *testbed) patchBy(t *testing.T, r *replica) int {
	t.Helper()
	return requestBy(t, r, http.MethodPatch, "/things/thing-1", "")
}

func requestBy(t *testing.T, r *replica, method, path, id string) int {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), method, r.proxy.URL()+path, strings.NewReader("{}"))
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("X-Test", id)
	response, err := (&http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode
}

func planOf(t *testing.T, kind string) Plan {
	t.Helper()
	p, err := ParsePlan("s:" + kind + ":PATCH:/things/{thing}:2")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

var thing = map[string]string{"thing": "thing-1"}

func processNames(s *testbed) []string {
	var all []string
	for _, r := range s.running() {
		all = append(all, r.process.Name())
	}
	return all
}

// lifetimeOf is the first process of a replica.
func (s *testbed) lifetimeOf(name string) history.Process {
	for _, life := range s.historySince(time.Time{}).Replicas {
		if life.Name == name {
			return life
		}
	}
	return history.Process{}
}

package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease"

// newElection is a stage on which worker one leads.
func newElection(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, http.StatusOK)
	s.subject.Promises.Lease = lease
	s.client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	o := &coordinationv1.Lease{}
	o.Namespace, o.Name = lease.Namespace, lease.Name
	o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = new("host_1"), new(int32(1))
	NewWithT(t).Expect(s.client.Create(t.Context(), o)).To(Succeed())
	for _, w := range s.workers {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}}}
		pod.Namespace, pod.Name, pod.UID = lease.Namespace, w.name, types.UID(w.name+"-uid")
		NewWithT(t).Expect(s.client.Create(t.Context(), pod)).To(Succeed())
	}
	return s
}

// elects makes worker two the leader.
func (s *stage) elects(t *testing.T) {
	t.Helper()
	s.renews(t, s.client, 1)
}

// renews makes a worker write the Lease, which it holds from then on.
func (s *stage) renews(t *testing.T, store client.Client, worker int) {
	t.Helper()
	g := NewWithT(t)
	o := &coordinationv1.Lease{}
	g.Expect(store.Get(t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: lease.Name}, o)).To(Succeed())
	o.Spec.HolderIdentity = new(fmt.Sprintf("host_%d", worker+1)) // an identity need not be the Pod's
	g.Expect(store.Update(t.Context(), o)).To(Succeed())
	s.ask(t, worker, http.MethodPut, leasePath, "")
}

// keepsRenewing makes a worker renew the Lease each time that somebody reads it.
func (s *stage) keepsRenewing(t *testing.T, worker int) {
	t.Helper()
	stored, ok := s.client.(client.WithWatch)
	NewWithT(t).Expect(ok).To(BeTrue())
	s.client = interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			s.renews(t, c, worker)
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// stopsTime makes the run's waits end when the test says so.
func (s *stage) stopsTime() *clocktesting.FakeClock {
	stopped := clocktesting.NewFakeClock(time.Now())
	s.clock = stopped
	return stopped
}

// passes lets one wait that there is, or will be, end.
func passes(t *testing.T, c *clocktesting.FakeClock, d time.Duration) {
	t.Helper()
	NewWithT(t).Eventually(c.HasWaiters, eventually).Should(BeTrue())
	c.Step(d)
}

// sets arms a plan about the second PATCH of the thing.
func (s *stage) sets(t *testing.T, kind string) *armed {
	t.Helper()
	return s.setsPlan(t, planOf(t, kind))
}

func (s *stage) setsPlan(t *testing.T, plan scenario.Plan) *armed {
	t.Helper()
	g := NewWithT(t)
	a, err := s.arm(t.Context(), scenario.Scenario{}, plan, thing)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(a.disarm()).To(Succeed()) })
	return a
}

// comes sends the request that the plan is about, by worker one, and goes on.
func (s *stage) comes(t *testing.T) <-chan int {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "the first")
	code := make(chan int, 1)
	go func() { code <- s.patch(t, 0, "/things/thing-1") }()
	return code
}

// alone says whether a worker gets no answer, without waiting for one for long.
func (s *stage) alone(t *testing.T, worker int, path string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.replicas[worker].proxy.URL()+path, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	return err != nil
}

// cutFrom asks whether the first worker is cut off from a path.
func (s *stage) cutFrom(t *testing.T, path string) func() bool {
	t.Helper()
	return func() bool { return s.alone(t, 0, path) }
}

// happened is the one fault that was told of.
func happened(t *testing.T, a *armed) history.Fault {
	t.Helper()
	g := NewWithT(t)
	g.Expect(a.resting(t.Context())).To(Succeed())
	g.Expect(a.disarm()).To(Succeed())
	f := a.result()
	g.Expect(f.Happened).To(Equal(1), f.Detail)
	g.Expect(f.Ended).To(BeTemporally(">=", f.Began))
	return f
}

// void is why the fault did not happen.
func void(t *testing.T, a *armed) string {
	t.Helper()
	g := NewWithT(t)
	g.Expect(a.disarm()).To(Succeed())
	f := a.result()
	g.Expect(f.Happened).To(BeZero())
	return f.Detail
}

func TestAWriteArrivesLate(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P10")
	answer := s.comes(t)
	g.Eventually(s.cutFrom(t, leasePath), eventually).Should(BeTrue(), "it cannot renew")
	g.Expect(s.alone(t, 1, leasePath)).To(BeFalse(), "the other one can")
	g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK))
	g.Expect(s.patch(t, 1, "/things/thing-1")).To(Equal(http.StatusOK), "what the next leader writes is not held")
	g.Expect(answer).NotTo(Receive())
	s.elects(t)
	g.Eventually(answer, eventually).Should(Receive(Equal(http.StatusOK)))
	f := happened(t, a)
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(HavePrefix("PATCH /things/thing-1, held for "))
	g.Expect(f.Detail).To(HaveSuffix("reached the API server when replica two led, and was answered 200 OK"))
	g.Expect(s.alone(t, 0, leasePath)).To(BeFalse(), "it is over")
}

func TestALateWriteOutlivesItsSender(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P10")
	g.Expect(s.patch(t, 0, "/things/thing-1")).To(Equal(http.StatusOK), "the first")
	ctx, dies := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.replicas[0].proxy.URL()+"/things/thing-1", nil)
	g.Expect(err).NotTo(HaveOccurred())
	gone := make(chan error, 1)
	go func() {
		response, err := http.DefaultTransport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		gone <- err
	}()
	g.Eventually(s.cutFrom(t, leasePath), eventually).Should(BeTrue())
	dies()
	g.Eventually(gone, eventually).Should(Receive(HaveOccurred()))
	s.elects(t)
	g.Expect(happened(t, a).Detail).To(ContainSubstring("answered 200"))
}

func TestWithoutAnotherLeaderNothingHappened(t *testing.T) {
	for _, kind := range []string{"P10", "P11", "P12", "P13-leader", "P21-terminated"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newElection(t)
			a := s.sets(t, kind)
			a.limit = 200 * time.Millisecond
			answer := s.comes(t)
			g.Eventually(answer, eventually).Should(Receive(), "it is let go")
			g.Expect(a.resting(t.Context())).To(Succeed())
			g.Expect(void(t, a)).To(ContainSubstring("no other replica than one came to lead within 200ms"))
			g.Expect(s.alone(t, 0, leasePath)).To(BeFalse())
		})
	}
}

func TestWhatTheEndOfTheRunCutsShortDidNotHappen(t *testing.T) {
	for _, kind := range []string{"P10", "P11", "P12", "P12-rest", "P13-leader", "P13-all", "P13-start", "P14-slow", "P21-terminated", "P21-deleted"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newElection(t)
			s.stopsTime()
			a := s.sets(t, kind)
			answer := s.comes(t)
			g.Eventually(func() int { a.mu.Lock(); defer a.mu.Unlock(); return a.lasting }, eventually).Should(Equal(1))
			g.Expect(void(t, a)).To(ContainSubstring("the run ended before it was over"))
			g.Eventually(answer, eventually).Should(Receive())
			if kind == "P11" {
				g.Expect(s.workers[0].heard()).To(Equal([]string{"paused", "resumed"}), "nobody stays paused")
			}
		})
	}
}

func TestALeaderIsPausedUntilAnotherLeads(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P11")
	g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)), "the answer waits for it")
	g.Eventually(s.workers[0].heard, eventually).Should(Equal([]string{"paused"}))
	s.elects(t)
	s.patch(t, 1, "/things/thing-1")
	f := happened(t, a)
	g.Expect(s.workers[0].heard()).To(HaveExactElements("paused", "resumed"))
	g.Expect(s.workers[1].heard()).To(BeEmpty())
	g.Expect(f.Replica).To(Equal("one"))
	g.Expect(f.Detail).To(MatchRegexp(`^paused at PATCH /things/thing-1, and went on \S+ later, when replica two led$`))
}

// A write may come from who does not lead, as of an operator that elects nobody: then
// nothing was taken away from a leader.
func TestWhoDoesNotLeadIsNoLeader(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.elects(t) // the second one
	a := s.sets(t, "P11")
	g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.workers[0].heard, eventually).Should(ContainElement("resumed"))
	g.Expect(a.resting(t.Context())).To(Succeed())
	g.Expect(void(t, a)).To(Equal("replica one did not lead when it began: host_2 did"))
}

// What was told to stop running may do so later, and nobody else would wake it.
func TestAReplicaThatWasNotSeenToPauseIsResumed(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.workers[0].restless = errors.New("nobody can tell")
	a, err := s.arm(t.Context(), scenario.Scenario{}, planOf(t, "P11"), thing)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.workers[0].heard, eventually).Should(Equal([]string{"paused", "resumed"}))
	g.Expect(a.disarm()).To(MatchError(ContainSubstring("nobody can tell")))
	g.Expect(a.result().Happened).To(BeZero())
}

func TestOnlyTheLeaseIsCutOff(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P12")
	g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(s.cutFrom(t, leasePath), eventually).Should(BeTrue())
	g.Expect(s.alone(t, 0, "/things/thing-1")).To(BeFalse(), "the rest is there")
	g.Expect(s.alone(t, 1, leasePath)).To(BeFalse())
	s.elects(t)
	g.Expect(happened(t, a).Detail).To(Equal("cut off from the Lease at PATCH /things/thing-1, until replica two led"))
	g.Expect(s.alone(t, 0, leasePath)).To(BeFalse(), "it is over")
}

func TestALeaseThatWasNotRenewedAnywayIsNoFault(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P12")
	g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
	s.elects(t)
	g.Expect(a.resting(t.Context())).To(Succeed())
	g.Expect(void(t, a)).To(ContainSubstring("replica two led, though one had not tried to renew"))
}

func TestAllButTheLeaseIsCutOff(t *testing.T) {
	for name, asks := range map[string]bool{"Happened": true, "NobodyAsked": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.stopsTime()
			a := s.sets(t, "P12-rest")
			s.comes(t)
			g.Eventually(c.HasWaiters, eventually).Should(BeTrue())
			g.Expect(s.alone(t, 0, leasePath)).To(BeFalse())
			if asks {
				g.Expect(s.alone(t, 0, "/things/thing-1")).To(BeTrue())
			}
			g.Expect(s.alone(t, 1, "/things/thing-1")).To(BeFalse())
			passes(t, c, 2*time.Second)
			if !asks {
				g.Expect(a.resting(t.Context())).To(Succeed())
				g.Expect(void(t, a)).To(ContainSubstring("asked for nothing in 1s"))
				return
			}
			f := happened(t, a)
			g.Expect(f.Detail).To(Equal("cut off at PATCH /things/thing-1 from all but the Lease, 1 requests"))
			g.Expect(f.Ended.Sub(f.Began)).To(Equal(2*time.Second), "longer than the Lease lasts")
			g.Expect(s.alone(t, 0, "/things/thing-1")).To(BeFalse())
		})
	}
}

func TestALeaderIsCutOff(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	a := s.sets(t, "P13-leader")
	s.comes(t)
	g.Eventually(s.cutFrom(t, "/healthz"), eventually).Should(BeTrue())
	g.Expect(s.alone(t, 1, "/healthz")).To(BeFalse())
	s.elects(t)
	f := happened(t, a)
	g.Expect(f.Detail).To(MatchRegexp("^cut off at PATCH /things/thing-1, with .* under way and .* after, until replica two led$"))
	g.Expect(s.alone(t, 0, "/healthz")).To(BeFalse())
}

func TestAllAreCutOff(t *testing.T) {
	for name, asking := range map[string]int{"Happened": 2, "OneDidNotAsk": 1} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.stopsTime()
			a := s.sets(t, "P13-all")
			s.comes(t)
			g.Eventually(c.HasWaiters, eventually).Should(BeTrue())
			for worker := range asking {
				g.Expect(s.alone(t, worker, leasePath)).To(BeTrue())
			}
			passes(t, c, 2*time.Second)
			g.Expect(a.resting(t.Context())).To(Succeed())
			if asking < 2 {
				g.Expect(void(t, a)).To(ContainSubstring("replica two asked for nothing in 1s"))
				return
			}
			g.Expect(happened(t, a).Replica).To(BeEmpty(), "it was all")
			g.Expect(s.alone(t, 0, leasePath)).To(BeFalse())
			g.Expect(s.alone(t, 1, leasePath)).To(BeFalse())
		})
	}
}

func TestAReplicaStartsWhileItIsCutOff(t *testing.T) {
	for name, asks := range map[string]bool{"Happened": true, "ItDidNotAsk": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			c := s.stopsTime()
			a := s.sets(t, "P13-start")
			g.Eventually(s.comes(t), eventually).Should(Receive(Equal(http.StatusOK)))
			g.Eventually(c.HasWaiters, eventually).Should(BeTrue())
			g.Eventually(func() int { starts, _ := s.workers[1].counts(); return starts }, eventually).Should(Equal(2), "it is not the leader")
			if asks {
				g.Expect(s.alone(t, 1, leasePath)).To(BeTrue())
			}
			g.Expect(s.alone(t, 0, leasePath)).To(BeFalse())
			passes(t, c, 2*time.Second)
			if !asks {
				g.Expect(a.resting(t.Context())).To(Succeed())
				g.Expect(void(t, a)).To(ContainSubstring("replica two asked for nothing in 1s"))
				return
			}
			f := happened(t, a)
			g.Expect(f.Replica).To(Equal("two"))
			g.Expect(f.Detail).To(Equal("killed at PATCH /things/thing-1 and started again, cut off for 1 requests"))
		})
	}
}

package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/runners/election"
	"leasehold.dev/test/harness/expect"
)

// steady never expires in a spec, and is long enough to count renewals.
var steady = timing{60 * time.Second, 40 * time.Second, 500 * time.Millisecond}

// candidate is the elector of client-go with our lock, and nothing else.
type candidate struct {
	lock   *election.Lock
	pod    *corev1.Pod
	gate   *gate
	cancel context.CancelFunc
	done   chan struct{}
	led    atomic.Bool

	mu       sync.Mutex
	requests []string // "PUT 200", of all that were answered
}

// requestsSince returns the requests after the first n.
func (c *candidate) requestsSince(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[n:]
}

func (c *candidate) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.requests = append(c.requests, fmt.Sprintf("%s %d", r.Method, response.StatusCode))
		}
		return response, err
	})
}

// newCandidate starts a candidate with a Pod object whose container runs.
func newCandidate(ctx context.Context, namespace, name string, t timing) *candidate {
	GinkgoHelper()
	c := &candidate{gate: &gate{}, done: make(chan struct{})}
	c.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			ServiceAccountName: "candidate", AutomountServiceAccountToken: new(false),
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "manager/runs-here"}},
			Containers:      []corev1.Container{{Name: "manager", Image: "manager.invalid/none"}},
		},
	}
	Expect(kube.Create(ctx, c.pod)).To(Succeed())
	own := rest.CopyConfig(config)
	own.Wrap(c.gate.transport)
	own.Wrap(c.count)
	var err error
	c.lock, err = election.NewLock(own, election.Options{
		Lease: types.NamespacedName{Namespace: namespace, Name: "lease"}, PodName: name, PodUID: c.pod.UID,
		Container:     "manager",
		RenewDeadline: t.renew, RetryPeriod: t.retry, Clock: clock.RealClock{}, Evidence: true,
	})
	Expect(err).NotTo(HaveOccurred())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, LeaseDuration: t.lease, RenewDeadline: t.renew, RetryPeriod: t.retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { c.led.Store(true) },
			OnStoppedLeading: func() {}},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(c.done)
		elector.Run(ctx)
	}()
	DeferCleanup(func() {
		c.cancel()
		Eventually(c.done).WithTimeout(expect.Long).Should(BeClosed())
	})
	return c
}

// ends reports, as the kubelet would, that the candidate's container terminated now.
func (c *candidate) ends(ctx context.Context) {
	GinkgoHelper()
	before := c.pod.DeepCopy()
	c.pod.Status.Phase = corev1.PodRunning
	c.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "manager", Image: "manager.invalid/none",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, FinishedAt: metav1.Now()}},
	}}
	Expect(kube.Status().Patch(ctx, c.pod, client.MergeFrom(before))).To(Succeed())
}

// contest is a leader and twenty standbys, all of them quiet.
type contest struct {
	namespace string
	leader    *candidate
	standbys  []*candidate
	seen      []int // requests of each standby until now
}

func newContest(ctx context.Context, t timing) *contest {
	GinkgoHelper()
	c := &contest{namespace: newNamespace(ctx)}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "candidate"}}
	Expect(kube.Create(ctx, account)).To(Succeed())
	c.leader = newCandidate(ctx, c.namespace, "leader", t)
	Eventually(c.leader.led.Load).WithTimeout(expect.Medium).Should(BeTrue())
	for i := range 20 {
		c.standbys = append(c.standbys, newCandidate(ctx, c.namespace, fmt.Sprintf("standby-%d", i), t))
	}
	// Each lists and watches the Lease and the leader's Pod. On a slow machine a watch may be silent
	// for so long that a standby reads the Lease too.
	for _, s := range c.standbys {
		Eventually(func() int { return len(s.requestsSince(0)) }).WithTimeout(expect.Medium).Should(BeNumerically(">=", 4))
	}
	// The kubelet's times have whole seconds.
	Eventually(func(g Gomega) {
		g.Expect(time.Since(c.lease(ctx).Spec.AcquireTime.Time)).To(BeNumerically(">", time.Second))
	}).WithTimeout(expect.Medium).Should(Succeed())
	for _, s := range c.standbys {
		c.seen = append(c.seen, len(s.requestsSince(0)))
	}
	return c
}

func (c *contest) lease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(kube.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "lease"}, lease)).To(Succeed())
	return lease
}

// expectOneWinner waits for the takeover and counts the writes of each replica.
func (c *contest) expectOneWinner(ctx context.Context, within time.Duration) {
	GinkgoHelper()
	before := ptr.Deref(c.lease(ctx).Spec.LeaseTransitions, -1)
	winners := func() (led []*candidate) {
		for _, s := range c.standbys {
			if s.led.Load() {
				led = append(led, s)
			}
		}
		return led
	}
	Eventually(winners).WithTimeout(within).Should(HaveLen(1))
	Consistently(winners).Should(HaveLen(1))
	winner := winners()[0]
	Expect(c.lease(ctx).Spec.HolderIdentity).To(HaveValue(Equal(winner.lock.Identity())))
	Expect(c.lease(ctx).Spec.LeaseTransitions).To(HaveValue(BeNumerically("<=", before+1)))
	conflicts := 0
	for i, s := range c.standbys {
		failed := 0
		for _, r := range s.requestsSince(c.seen[i]) {
			if strings.HasPrefix(r, "PUT ") && r != "PUT 200" {
				Expect(r).To(Equal("PUT 409"))
				failed++
			}
		}
		Expect(failed).To(BeNumerically("<=", 1), "a conflict is not repeated")
		conflicts += failed
	}
	Expect(conflicts).To(BeNumerically("<=", 19))
	AddReportEntry("conflicts", conflicts)
}

var _ = Describe("Twenty standbys of one leader", func() {
	It("send nothing while it leads, and it sends one request each retry period", func(ctx SpecContext) {
		c := newContest(ctx, steady)
		leaderSent, periods := len(c.leader.requestsSince(0)), 20
		began := time.Now()
		Eventually(func() time.Duration { return time.Since(began) }).WithTimeout(expect.Long).Should(
			BeNumerically(">=", time.Duration(periods)*steady.retry))
		sent := c.leader.requestsSince(leaderSent)
		Expect(len(sent)).To(BeNumerically("<=", int(1.05*float64(periods))+1), "one more may lie on the edge")
		Expect(len(sent)).To(BeNumerically(">", periods/2), "it renews all the time")
		Expect(sent).To(HaveEach("PUT 200"))
		for i, s := range c.standbys {
			Expect(s.requestsSince(c.seen[i])).To(BeEmpty())
		}
	}, SpecTimeout(expect.Long))

	It("have one winner when it gives the Lease back, at once", func(ctx SpecContext) {
		c := newContest(ctx, steady)
		c.leader.cancel()
		Eventually(c.leader.done).Should(BeClosed())
		c.expectOneWinner(ctx, expect.Quick)
	}, SpecTimeout(expect.Long))

	It("have one winner when its Pod shows that it ended, long before its Lease expires", func(ctx SpecContext) {
		c := newContest(ctx, steady)
		c.leader.gate.cut("/")
		c.leader.ends(ctx)
		c.expectOneWinner(ctx, expect.Short)
	}, SpecTimeout(expect.Long))

	It("have one winner when its Lease expires, and none before", func(ctx SpecContext) {
		c := newContest(ctx, hasty)
		c.leader.gate.cut("/")
		renewed := c.lease(ctx).Spec.RenewTime.Time
		c.expectOneWinner(ctx, expect.Medium)
		// Both clocks are this machine's.
		Expect(c.lease(ctx).Spec.AcquireTime.Sub(renewed)).To(BeNumerically(">=", hasty.lease))
	}, SpecTimeout(expect.Long))
})

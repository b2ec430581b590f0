package manager_test

import (
	"context"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/election"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

// timing are the three durations of an election.
type timing struct{ lease, renew, retry time.Duration }

var (
	// patient never expires in a spec, however slow the machine is.
	patient = timing{60 * time.Second, 40 * time.Second, 200 * time.Millisecond}
	// hasty expires while a spec waits.
	hasty = timing{4 * time.Second, 2 * time.Second, 250 * time.Millisecond}
)

// lazyLock carries what the lock is made of until the replica has its config.
type lazyLock struct {
	resourcelock.Interface
	options election.Options
}

func elected(namespace string, t timing) func(*replica, *ctrl.Options) {
	return func(r *replica, o *ctrl.Options) {
		o.LeaderElection = true
		o.LeaderElectionReleaseOnCancel = true
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &t.lease, &t.renew, &t.retry
		o.Controller.EnableWarmup = new(true)
		o.LeaderElectionResourceLockInterface = &lazyLock{options: election.Options{
			Lease: types.NamespacedName{Namespace: namespace, Name: "lease"}, PodName: r.name,
			RenewDeadline: t.renew, RetryPeriod: t.retry, Clock: clock.RealClock{},
		}}
	}
}

// holders follows the Lease and keeps every holder it has had, in order.
type holders struct {
	mu   sync.Mutex
	seen []string
	last coordinationv1.LeaseSpec
}

func followLease(ctx context.Context, namespace string) *holders {
	GinkgoHelper()
	watching, err := client.NewWithWatch(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	leases, err := watching.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(leases.Stop)
	h := &holders{}
	go func() {
		for e := range leases.ResultChan() {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok {
				h.take(lease)
			}
		}
	}()
	return h
}

func (h *holders) take(lease *coordinationv1.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = lease.Spec
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if len(h.seen) == 0 || h.seen[len(h.seen)-1] != holder {
		h.seen = append(h.seen, holder)
	}
}

func (h *holders) history() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

func (h *holders) transitions() int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ptr.Deref(h.last.LeaseTransitions, -1)
}

// pair is a leader and a standby in one namespace, each with its runnables.
type pair struct {
	namespace               string
	lease                   *holders
	leader, standby         *replica
	leaderOnly, standbyOnly *beat // need the lead
	onLeader, onStandby     *beat // need nothing
}

func newPair(ctx context.Context, t timing, with ...func(*replica)) *pair {
	GinkgoHelper()
	p := &pair{
		namespace:  newNamespace(ctx),
		leaderOnly: &beat{}, standbyOnly: &beat{},
		onLeader: &beat{everywhere: true}, onStandby: &beat{everywhere: true},
	}
	p.lease = followLease(ctx, p.namespace)
	build := func(name string, only, every *beat) *replica {
		r := newReplica(name, p.namespace, elected(p.namespace, t))
		Expect(r.Add(only)).To(Succeed())
		Expect(r.Add(every)).To(Succeed())
		for _, f := range with {
			f(r)
		}
		return r
	}
	p.leader = build("first", p.leaderOnly, p.onLeader).start(ctx)
	Eventually(p.leader.Elected()).WithTimeout(expect.Medium).Should(BeClosed())
	p.standby = build("second", p.standbyOnly, p.onStandby).start(ctx)
	expectBeating(p.onStandby)
	return p
}

var _ = Describe("Two managers with one Lease", func() {
	It("hand the lead over at once when the leader stops", func(ctx SpecContext) {
		p := newPair(ctx, patient)
		before := p.lease.transitions()

		p.leader.stop()
		// Far below the lease duration: nothing had to expire.
		Eventually(p.standby.Elected()).WithTimeout(expect.Short).Should(BeClosed())
		expectBeating(p.standbyOnly)
		Eventually(p.lease.history).Should(HaveExactElements(HavePrefix("first_"), BeEmpty(), HavePrefix("second_")))
		Expect(p.lease.transitions()).To(Equal(before + 1))
	}, SpecTimeout(expect.Long))

	It("hand the lead over by expiry when the leader cannot renew, and the old leader ends with an error",
		func(ctx SpecContext) {
			p := newPair(ctx, hasty)
			before := p.lease.transitions()

			p.leader.gate.cut("/leases/")
			Eventually(p.leader.done).WithTimeout(expect.Medium).Should(BeClosed())
			Expect(p.leader.err).To(MatchError(ContainSubstring("leader election lost")))
			Eventually(p.standby.Elected()).WithTimeout(expect.Medium).Should(BeClosed())
			expectBeating(p.standbyOnly)
			Eventually(p.lease.history).Should(HaveExactElements(HavePrefix("first_"), HavePrefix("second_")),
				"the Lease was not given back")
			Expect(p.lease.transitions()).To(Equal(before + 1))
		}, SpecTimeout(expect.Long))

	It("tell by events beside the Lease who leads", func(ctx SpecContext) {
		p := newPair(ctx, patient)
		p.leader.stop()
		Eventually(p.standby.Elected()).WithTimeout(expect.Short).Should(BeClosed())
		Eventually(func(g Gomega) {
			var events eventsv1.EventList
			g.Expect(kube.List(ctx, &events, client.InNamespace(p.namespace))).To(Succeed())
			g.Expect(events).To(And(
				expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: "LeaderElection",
					Note: "^first_.* became leader: there was no Lease$"}),
				expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: "LeaderElection",
					Note: "^second_.* became leader: released$"})))
			for _, e := range events.Items {
				g.Expect(e.Regarding.Kind).To(Equal("Lease"))
				g.Expect(e.ReportingController).To(Equal("election"), "written through events.k8s.io")
			}
		}).Should(Succeed())
	}, SpecTimeout(expect.Long))

	It("leave all writing to the leader, while the standby follows the world", func(ctx SpecContext) {
		if shared.AuditLog == "" {
			Skip("this cluster's audit log cannot be read")
		}
		p := newPair(ctx, patient, func(r *replica) {
			r.reconciles("writer-"+r.user, func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var cm corev1.ConfigMap
				if err := r.GetClient().Get(ctx, req.NamespacedName, &cm); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if cm.Data["by"] != "" || cm.Labels["touched"] == "" {
					return reconcile.Result{}, nil
				}
				cm.Data = map[string]string{"by": r.user}
				return reconcile.Result{}, r.GetClient().Update(ctx, &cm)
			})
		})
		for _, name := range []string{"a", "b", "c"} {
			touch(ctx, newConfigMap(ctx, p.namespace, name))
		}
		// The standby sees what the leader wrote: its caches follow.
		written := func(ctx context.Context) []string {
			var list corev1.ConfigMapList
			Expect(p.standby.GetCache().List(ctx, &list, client.InNamespace(p.namespace))).To(Succeed())
			by := []string{}
			for _, cm := range list.Items {
				if cm.Data["by"] != "" {
					by = append(by, cm.Data["by"])
				}
			}
			return by
		}
		Eventually(ctx, written).Should(HaveExactElements(p.leader.user, p.leader.user, p.leader.user))

		before := p.onStandby.count.Load()
		writes := func(user string) []string {
			events, err := record.ReadAuditLog(shared.AuditLog)
			Expect(err).NotTo(HaveOccurred())
			uris := []string{}
			for _, e := range record.Writes(events, user) {
				uris = append(uris, e.Verb+" "+e.RequestURI)
			}
			return uris
		}
		Consistently(writes).WithArguments(p.standby.user).Should(BeEmpty())
		Expect(p.onStandby.count.Load()).To(BeNumerically(">", before), "the standby must have been alive meanwhile")
		Expect(writes(p.leader.user)).To(ContainElement(ContainSubstring("/configmaps/a")), "the log must show writes")
	}, SpecTimeout(expect.Long))

	It("start as standby when another holds the Lease, and leave it alone at the stop", func(ctx SpecContext) {
		p := newPair(ctx, patient)
		p.standby.stop()
		Expect(p.lease.history()).To(ConsistOf(HavePrefix("first_")))
		Expect(p.standbyOnly.count.Load()).To(BeZero())
		expectBeating(p.leaderOnly)
		var lease coordinationv1.Lease
		Expect(kube.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "lease"}, &lease)).To(Succeed())
		Expect(lease.Spec.RenewTime).To(HaveField("Time", BeTemporally("~", metav1.Now().Time, 10*time.Second)))
	}, SpecTimeout(expect.Long))
})

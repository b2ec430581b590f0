package manager_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/health"
	"leasehold.dev/test/harness/expect"
)

// staged stands in for one runnable of a group and notes when it starts and when
// it has ended.
type staged struct {
	name string
	*journal
}

func (s staged) Start(ctx context.Context) error {
	s.note("start " + s.name)
	<-ctx.Done()
	s.note("end " + s.name)
	return nil
}

// everywhere goes to the group of runnables that need no lead.
type everywhere struct{ staged }

func (everywhere) NeedLeaderElection() bool { return false }

// leading goes to the group of runnables that need it.
type leading struct{ staged }

func (leading) NeedLeaderElection() bool { return true }

// hooks goes to the group of webhook servers.
type hooks struct {
	webhook.Server
	staged
}

func (h hooks) Start(ctx context.Context) error { return h.staged.Start(ctx) }

// caching goes to the group of caches, and has synced once synced is closed.
type caching struct {
	staged
	synced chan struct{}
}

func (c caching) GetCache() cache.Cache { return gatedCache{synced: c.synced} }

type gatedCache struct {
	cache.Cache
	synced chan struct{}
}

func (c gatedCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// addStages adds one runnable of each group, and a plain HTTP server whose
// address it returns.
func addStages(ctx context.Context, r *replica, j *journal) (synced chan struct{}, url string) {
	GinkgoHelper()
	synced = make(chan struct{})
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	httpServer := &http.Server{ReadHeaderTimeout: expect.Quick}
	httpServer.RegisterOnShutdown(func() { j.note("end http") })
	for _, runnable := range []manager.Runnable{
		// Added in the opposite order of the start: the order is the manager's.
		leading{staged{"leading", j}},
		everywhere{staged{"everywhere", j}},
		caching{staged{"cache", j}, synced},
		hooks{staged: staged{"webhooks", j}},
		&manager.Server{Name: "http", Server: httpServer, Listener: listener},
	} {
		Expect(r.Add(runnable)).To(Succeed())
	}
	return synced, "http://" + listener.Addr().String() + "/"
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

var _ = Describe("A manager", func() {
	It("serves HTTP and webhooks before its caches have synced, and starts all else after", func(ctx SpecContext) {
		var j journal
		r := newReplica("staged", newNamespace(ctx))
		synced, url := addStages(ctx, r, &j)
		r.start(ctx)

		Eventually(j.read).Should(ConsistOf("start webhooks", "start cache"))
		Eventually(ctx, answers).WithArguments(url).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(j.read()).NotTo(Or(ContainElement("start everywhere"), ContainElement("start leading")))
			g.Expect(answers(ctx, url)).To(Succeed(), "the manager must have been alive meanwhile")
		}).Should(Succeed())
		Expect(r.Elected()).NotTo(BeClosed())

		close(synced)
		Eventually(j.read).Should(ConsistOf("start webhooks", "start cache", "start everywhere", "start leading"))
		Eventually(r.Elected()).Should(BeClosed(), "without election every manager leads")
	}, SpecTimeout(expect.Long))

	It("stops in the opposite order, each group after the one before has ended", func(ctx SpecContext) {
		var j journal
		r := newReplica("staged", newNamespace(ctx))
		synced, _ := addStages(ctx, r, &j)
		close(synced)
		r.start(ctx)
		Eventually(j.read).Should(ContainElements("start everywhere", "start leading"))
		started := len(j.read())
		r.stop()
		Expect(j.read()[started:]).To(HaveExactElements("end everywhere", "end leading", "end cache", "end webhooks",
			"end http"))
	}, SpecTimeout(expect.Long))

	for _, warm := range []bool{false, true} {
		text := "has the caches synced before the first reconcile"
		if warm {
			text += ", also when it warms up"
		}
		It(text, func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			for _, name := range []string{"a", "b", "c"} {
				newConfigMap(ctx, namespace, name)
			}
			r := newReplica("reader", namespace, func(_ *replica, o *ctrl.Options) { o.Controller.EnableWarmup = &warm })
			seen := make(chan int, 100)
			r.reconciles("reader-"+namespace, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				var list corev1.ConfigMapList
				err := r.GetClient().List(ctx, &list, client.InNamespace(namespace))
				seen <- len(list.Items)
				return reconcile.Result{}, err
			})
			pulse := &beat{everywhere: true}
			Expect(r.Add(pulse)).To(Succeed())
			ready := health.CachesSynced(r.GetCache(), []client.Object{&corev1.ConfigMap{}})
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(ready(request)).To(MatchError(ContainSubstring("not synced")), "before the start")

			r.gate.hold("/configmaps")
			r.start(ctx)
			Consistently(func(g Gomega) {
				g.Expect(seen).NotTo(Receive())
				g.Expect(ready(request)).To(MatchError(ContainSubstring("not synced")))
			}).Should(Succeed())
			r.gate.open()
			// Runnables of all replicas wait for the caches, too.
			expectBeating(pulse)
			var first int
			Eventually(seen).Should(Receive(&first))
			// Three, and the one that every namespace gets, if it was there in time.
			Expect(first).To(BeNumerically(">=", 3))
			Expect(ready(request)).To(Succeed())
		}, SpecTimeout(expect.Long))
	}

	It("ends the context of a running reconcile when it stops, and keeps the caches going until the reconcile is done",
		func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			r := newReplica("drained", namespace)
			running, cancelled, finish := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var returned atomic.Bool
			r.reconciles("drained-"+namespace, func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				if req.Name != "slow" {
					return reconcile.Result{}, nil
				}
				close(running)
				<-ctx.Done()
				close(cancelled)
				<-finish
				returned.Store(true)
				return reconcile.Result{}, nil
			})
			r.start(ctx)
			newConfigMap(ctx, namespace, "slow")
			Eventually(running).Should(BeClosed())
			Consistently(cancelled).WithTimeout(200 * time.Millisecond).ShouldNot(BeClosed())

			r.cancel()
			Eventually(cancelled).Should(BeClosed())
			late := newConfigMap(ctx, namespace, "late")
			Eventually(func() error {
				return r.GetCache().Get(ctx, client.ObjectKeyFromObject(late), &corev1.ConfigMap{})
			}).Should(Succeed(), "the cache must follow the world while a reconcile drains")
			Expect(r.done).NotTo(BeClosed())

			close(finish)
			r.stop()
			Expect(returned.Load()).To(BeTrue(), "Start returned before the reconcile did")
		}, SpecTimeout(expect.Long))

	It("gives up on a reconcile that does not end, after the graceful shutdown timeout, and says so",
		func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			r := newReplica("hung", namespace, func(_ *replica, o *ctrl.Options) {
				o.GracefulShutdownTimeout = new(200 * time.Millisecond)
			})
			running, finish := make(chan struct{}), make(chan struct{})
			DeferCleanup(func() { close(finish) })
			r.reconciles("hung-"+namespace, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
				if req.Name == "slow" {
					close(running)
					<-finish
				}
				return reconcile.Result{}, nil
			})
			r.start(ctx)
			newConfigMap(ctx, namespace, "slow")
			Eventually(running).Should(BeClosed())
			r.cancel()
			Eventually(r.done).Should(BeClosed())
			Expect(r.err).To(MatchError(ContainSubstring(
				"failed waiting for all runnables to end within grace period of 200ms")))
		}, SpecTimeout(expect.Long))

	It("cannot be started twice", func(ctx SpecContext) {
		r := newReplica("twice", newNamespace(ctx)).start(ctx)
		Eventually(r.Elected()).Should(BeClosed())
		Expect(r.Start(ctx)).To(MatchError(ContainSubstring("already started")))
	}, SpecTimeout(expect.Long))
})

package manager_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/test/harness/expect"
)

// rootCA is the ConfigMap that every namespace gets sooner or later.
const rootCA = "kube-root-ca.crt"

// calls keeps when a reconciler was called for one name.
type calls struct {
	mu   sync.Mutex
	name string
	at   []time.Time
}

func (c *calls) note(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == c.name {
		c.at = append(c.at, time.Now())
	}
	return len(c.at)
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

// gaps are the times between two calls.
func (c *calls) gaps() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(c.at); i++ {
		gaps = append(gaps, c.at[i].Sub(c.at[i-1]))
	}
	return gaps
}

// counterOf reads one controller's counter from the registry that is scraped.
func counterOf(metric, controllerName string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
				return l.GetName() == "controller" && l.GetValue() == controllerName
			}) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

var _ = Describe("A controller", func() {
	It("survives a panic, counts it and tries again", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		name := "panics-" + namespace
		r := newReplica("panics", namespace)
		attempts := &calls{name: "a"}
		r.reconciles(name, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			if n := attempts.note(req.Name); req.Name == "a" && n <= 2 {
				panic("on purpose")
			}
			return reconcile.Result{}, nil
		})
		r.start(ctx)
		newConfigMap(ctx, namespace, "a")
		Eventually(attempts.count).Should(Equal(3))
		Expect(counterOf("controller_runtime_reconcile_panics_total", name)).To(BeEquivalentTo(2))
		Expect(counterOf("controller_runtime_reconcile_errors_total", name)).To(BeEquivalentTo(2))
	}, SpecTimeout(expect.Long))

	It("looks at everything again each sync period though nothing changed", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		r := newReplica("resync", namespace, func(_ *replica, o *ctrl.Options) {
			// One second is the least that client-go honours.
			o.Cache.SyncPeriod = new(time.Second)
		})
		cm := newConfigMap(ctx, namespace, "a")
		seen := &calls{name: "a"}
		r.reconciles("resync-"+namespace, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			seen.note(req.Name)
			return reconcile.Result{}, nil
		})
		r.start(ctx)
		Eventually(seen.count).Should(BeNumerically(">=", 3))
		now := &corev1.ConfigMap{}
		Expect(kube.Get(ctx, client.ObjectKeyFromObject(cm), now)).To(Succeed())
		Expect(now.ResourceVersion).To(Equal(cm.ResourceVersion))
	}, SpecTimeout(expect.Long))

	It("waits longer after each failure in a row, and starts afresh after a success", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		r := newReplica("failing", namespace)
		attempts := &calls{name: "a"}
		const failures = 8
		r.reconciles("failing-"+namespace, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			// The ninth succeeds, the tenth fails once more, the eleventh succeeds.
			if n := attempts.note(req.Name); req.Name == "a" && n != failures+1 && n != failures+3 {
				return reconcile.Result{}, errors.New("on purpose")
			}
			return reconcile.Result{}, nil
		})
		r.start(ctx)
		cm := newConfigMap(ctx, namespace, "a")
		Eventually(attempts.count).Should(Equal(failures + 1))
		least := 5 * time.Millisecond
		for i, gap := range attempts.gaps() {
			Expect(gap).To(BeNumerically(">=", least), "before attempt %d", i+2)
			least *= 2
		}
		// A failure after the success waits as long as a first one, not as the next one.
		touch(ctx, cm)
		Eventually(attempts.count).Should(Equal(failures + 3))
		Expect(attempts.gaps()[failures+1]).To(BeNumerically("<", least))
	}, SpecTimeout(expect.Long))

	It("comes back after RequeueAfter without any event", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		r := newReplica("again", namespace)
		const after = 150 * time.Millisecond
		seen := &calls{name: "a"}
		r.reconciles("again-"+namespace, func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			if n := seen.note(req.Name); req.Name == "a" && n < 4 {
				return reconcile.Result{RequeueAfter: after}, nil
			}
			return reconcile.Result{}, nil
		})
		r.start(ctx)
		newConfigMap(ctx, namespace, "a")
		Eventually(seen.count).Should(Equal(4))
		for _, gap := range seen.gaps() {
			Expect(gap).To(BeNumerically(">=", after))
		}
	}, SpecTimeout(expect.Long))

	It("works on as many objects at once as allowed and never twice on one", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		r := newReplica("parallel", namespace)
		work := newFloor()
		r.reconciles("parallel-"+namespace, work.reconcile, func(b *ctrl.Builder) {
			b.WithOptions(controller.Options{MaxConcurrentReconciles: 3})
		})
		r.start(ctx)
		objects := []*corev1.ConfigMap{}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			objects = append(objects, newConfigMap(ctx, namespace, name))
		}
		Eventually(work.busy).Should(Equal(3))
		Consistently(func(g Gomega) {
			// Changes to what is being worked on must wait.
			for _, o := range objects {
				touch(ctx, o)
			}
			g.Expect(work.busy()).To(Equal(3))
		}).WithTimeout(300 * time.Millisecond).Should(Succeed())
		held := work.names()
		close(work.release)
		Eventually(func(g Gomega) {
			for _, o := range objects {
				g.Expect(work.finished(o.Name)).To(BeNumerically(">=", 1), o.Name)
			}
			for _, name := range held {
				g.Expect(work.finished(name)).To(BeNumerically(">=", 2), "the change of %s meanwhile must not be lost", name)
			}
		}).Should(Succeed())
		most, twice := work.worst()
		Expect(most).To(Equal(3))
		Expect(twice).To(BeEmpty(), "worked on twice at once")
	}, SpecTimeout(expect.Long))
})

// floor is where reconciles stand until they are released; it counts them.
type floor struct {
	mu      sync.Mutex
	there   map[string]int
	done    map[string]int
	most    int
	twice   []string
	release chan struct{}
}

func newFloor() *floor {
	return &floor{there: map[string]int{}, done: map[string]int{}, release: make(chan struct{})}
}

func (f *floor) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == rootCA {
		return reconcile.Result{}, nil
	}
	f.enter(req.Name)
	defer f.leave(req.Name)
	select {
	case <-f.release:
	case <-ctx.Done():
	}
	return reconcile.Result{}, nil
}

func (f *floor) enter(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there[name]++
	if f.there[name] > 1 {
		f.twice = append(f.twice, name)
	}
	f.most = max(f.most, len(f.there))
}

func (f *floor) leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.there[name]--; f.there[name] == 0 {
		delete(f.there, name)
	}
	f.done[name]++
}

func (f *floor) busy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.there)
}

func (f *floor) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.there {
		names = append(names, name)
	}
	return names
}

func (f *floor) finished(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done[name]
}

func (f *floor) worst() (most int, twice []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most, slices.Clone(f.twice)
}

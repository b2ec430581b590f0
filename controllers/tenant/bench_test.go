// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// `make gate` runs these benchmarks at each size n and compares cost and growth with a
// recorded baseline. The baseline has their names, so they must not change.

// sizes end at the maximum number of namespaces of a Tenant.
var sizes = []int{4, 32, v1beta1.MaxStatusNamespaces}

// atSizes runs a benchmark at each of the sizes.
func atSizes(b *testing.B, sizes []int, run func(*testing.B, int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			run(b, n)
		})
	}
}

// settledAt returns the observation of a Tenant that owns n reconciled namespaces, of
// which its spec names a quarter.
func settledAt(n int) *observation {
	t := tenant("a")
	t.Spec.Namespaces = nil
	o := observed(t)
	for i := range n {
		suffix := v1beta1.NamespaceSuffix(fmt.Sprintf("n%05d", i))
		if i%4 == 0 {
			t.Spec.Namespaces = append(t.Spec.Namespaces, suffix)
		}
		name := prefixOf(t) + string(suffix)
		owning(name)(t)
		o.namespaces[name] = namespace(name, ownedBy(t))
		o.bindings[name] = binding(name, t, "ann")
	}
	o.wanted, _ = wantedNames(t, flags)
	o.before = *t.Status.DeepCopy()
	return o
}

// reported returns a result without failures.
func reported(p plan) *result {
	res := ended()
	for _, s := range p.steps {
		res.states = append(res.states, state{name: s.name, uid: "uid", reason: v1beta1.ReasonReconciled})
	}
	return res
}

func BenchmarkDecide(b *testing.B) {
	atSizes(b, sizes, func(b *testing.B, n int) {
		o := settledAt(n)
		for b.Loop() {
			decide(o)
		}
	})
}

func BenchmarkValidateNames(b *testing.B) {
	atSizes(b, sizes, func(b *testing.B, n int) {
		t := settledAt(n).tenant
		for b.Loop() {
			wantedNames(t, flags)
		}
	})
}

func BenchmarkIntent(b *testing.B) {
	atSizes(b, sizes, func(b *testing.B, n int) {
		t := settledAt(n).tenant
		creates := namespaceNames(t)
		t.Status.Namespaces = nil
		for b.Loop() {
			intent(t, creates, epoch)
		}
	})
}

func BenchmarkSummarize(b *testing.B) {
	atSizes(b, sizes, func(b *testing.B, n int) {
		o := settledAt(n)
		res := reported(decide(o))
		for b.Loop() {
			summarize(o, res, epoch)
		}
	})
}

func BenchmarkTransitions(b *testing.B) {
	atSizes(b, sizes, func(b *testing.B, n int) {
		o := settledAt(n)
		after := summarize(o, reported(decide(o)), epoch)
		for b.Loop() {
			transitions(o.before, after, true)
		}
	})
}

// BenchmarkHeap reconciles a Tenant that is requested each time, so the status is written each time.
func BenchmarkHeap(b *testing.B) {
	stored := store(b, append(provision(nil), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}})...)
	r := &Reconciler{Base: reconciler.Base{Client: stored, Live: stored, Recorder: &events.FakeRecorder{},
		Clock: clock.RealClock{}}, metrics: newMetrics(prometheus.NewRegistry()), Options: Options{AdminClusterRole: "admin", OperatorNamespace: "leasehold-system", PodSecurityLevel: "baseline"}}
	n := 0
	reconcilertest.Heap(b, func() {
		t := &v1beta1.Tenant{}
		key := client.ObjectKey{Name: "a"}
		err := stored.Get(b.Context(), key, t)
		n++
		t.Annotations = map[string]string{v1beta1.AnnotationRequestedAt: fmt.Sprint(n)}
		err = errors.Join(err, stored.Update(b.Context(), t))
		if _, failed := r.Reconcile(b.Context(), ctrl.Request{NamespacedName: key}); err != nil || failed != nil {
			b.Fatal(err, failed)
		}
	})
	t := &v1beta1.Tenant{}
	err := stored.Get(b.Context(), client.ObjectKey{Name: "a"}, t)
	if err != nil || t.Status.LastHandledReconcileAt != fmt.Sprint(n) {
		b.Errorf("%v, the last of %d requests that was handled is %s", err, n, t.Status.LastHandledReconcileAt)
	}
}

func BenchmarkOwnsChild(b *testing.B) {
	t := tenant("a")
	child := binding("a-dev", t, "ann")
	b.ReportAllocs()
	for b.Loop() {
		ownsChild(t, child)
	}
}

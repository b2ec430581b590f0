package manager_test

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/test/harness/expect"
)

// plain is the smallest reconciler there is: it reads the object and keeps what
// it has seen of it.
type plain struct {
	client.Client
	kind func() client.Object

	mu   sync.Mutex
	seen map[string]sight
}

// sight is what the last call for an object found.
type sight struct {
	calls  int
	exists bool
	labels map[string]string
}

// Reconcile implements reconcile.Reconciler.
func (p *plain) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := p.kind()
	err := p.Get(ctx, req.NamespacedName, o)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[req.Name] = sight{p.seen[req.Name].calls + 1, !apierrors.IsNotFound(err), o.GetLabels()}
	return reconcile.Result{}, nil
}

func (p *plain) of(name string) sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[name]
}

var podSpec = corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "pause"}}}

var _ = DescribeTable("A plain reconciler is called when its object is created, updated and deleted:",
	func(ctx SpecContext, kind func() client.Object, build func() client.Object) {
		namespace := newNamespace(ctx)
		r := newReplica("plain", namespace)
		p := &plain{Client: r.GetClient(), kind: kind, seen: map[string]sight{}}
		Expect(ctrl.NewControllerManagedBy(r).Named("plain-" + namespace).For(kind()).Complete(p)).To(Succeed())
		r.start(ctx)

		o, other := build(), build()
		o.SetNamespace(namespace)
		o.SetName("one")
		other.SetNamespace(namespace)
		other.SetName("other")
		// A Pod needs its namespace's ServiceAccount, which comes a little later.
		Eventually(func() error { return kube.Create(ctx, o) }).Should(Succeed())
		Expect(kube.Create(ctx, other)).To(Succeed())
		Eventually(func() bool { return p.of("one").exists && p.of("other").exists }).Should(BeTrue())

		touch(ctx, o)
		Eventually(func() map[string]string { return p.of("one").labels }).Should(HaveKey("touched"))
		Expect(p.of("other").labels).NotTo(HaveKey("touched"))

		Expect(kube.Delete(ctx, o, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func() bool { return p.of("one").exists }).Should(BeFalse())
		Expect(p.of("one").calls).To(BeNumerically(">=", 3))
		Expect(p.of("other").exists).To(BeTrue())
	},
	Entry("a Pod",
		func() client.Object { return &corev1.Pod{} },
		func() client.Object { return &corev1.Pod{Spec: podSpec} },
		SpecTimeout(expect.Long)),
	Entry("a Deployment",
		func() client.Object { return &appsv1.Deployment{} },
		func() client.Object {
			labels := map[string]string{"app": "plain"}
			return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec},
			}}
		},
		SpecTimeout(expect.Long)),
)

// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// space is the default namespace of the specs' views.
const space = metav1.NamespaceDefault

func unique(base string) string { return operator.Unique(base) }

// files are contents by name.
type files = map[string]v1beta1.MarkdownText

// build returns a view of two files, without defaults.
func build(name string, with ...func(*v1beta1.MarkdownView)) *v1beta1.MarkdownView {
	v := &v1beta1.MarkdownView{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
		Spec: v1beta1.MarkdownViewSpec{Markdowns: files{
			"SUMMARY.md": "- [One](one.md)\n",
			"one.md":     "# One\n",
		}},
	}
	for _, f := range with {
		f(v)
	}
	return v
}

func showing(f files) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.Markdowns = f }
}

func replicas(n int32) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.Replicas = n }
}

func image(name string) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.ViewerImage = name }
}

// given creates a view, and deletes it after the spec without waiting.
func given(ctx context.Context, v *v1beta1.MarkdownView) *v1beta1.MarkdownView {
	GinkgoHelper()
	Expect(k8s.Create(ctx, v)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, v))).To(Succeed())
	})
	return v
}

// givenReady is given, makes the viewers available, and waits for the view to be Ready.
func givenReady(ctx context.Context, v *v1beta1.MarkdownView) *v1beta1.MarkdownView {
	GinkgoHelper()
	given(ctx, v)
	eventuallyReady(ctx, v)
	return v
}

// eventuallyReady makes the viewers available until the view is Ready for its current generation.
func eventuallyReady(ctx context.Context, v *v1beta1.MarkdownView) {
	GinkgoHelper()
	eventuallyObserved(ctx, v)
	rollOut(ctx, v)
	Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(And(
		expect.HaveObservedGeneration(),
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled)))
}

// eventuallyObserved waits until the operator has observed the current spec.
func eventuallyObserved(ctx context.Context, v *v1beta1.MarkdownView) {
	GinkgoHelper()
	Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(expect.HaveObservedGeneration())
}

// rollOut sets the Deployment's status as if all viewers had become available.
func rollOut(ctx context.Context, v *v1beta1.MarkdownView) {
	GinkgoHelper()
	deploymentSays(ctx, v, func(d *appsv1.Deployment) {
		n := *d.Spec.Replicas
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n, n, n
		d.Status.UnavailableReplicas = 0
		progressing(d, corev1.ConditionTrue, "NewReplicaSetAvailable")
	})
}

// deploymentSays changes the Deployment's status as its controller would, with the current
// observedGeneration.
func deploymentSays(ctx context.Context, v *v1beta1.MarkdownView, f func(*appsv1.Deployment)) {
	GinkgoHelper()
	d := deploymentOf(v)
	Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		d.Status.ObservedGeneration = d.Generation
		f(d)
		g.Expect(k8s.Status().Update(ctx, d)).To(Succeed())
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
}

func progressing(d *appsv1.Deployment, status corev1.ConditionStatus, reason string) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: status, Reason: reason, Message: "written by the spec"}}
}

func configMapOf(v *v1beta1.MarkdownView) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "markdowns-" + v.Name}}
}

func deploymentOf(v *v1beta1.MarkdownView) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "viewer-" + v.Name}}
}

func serviceOf(v *v1beta1.MarkdownView) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: "viewer-" + v.Name}}
}

// childrenOf returns the view's children with their names only.
func childrenOf(v *v1beta1.MarkdownView) []client.Object {
	return []client.Object{configMapOf(v), deploymentOf(v), serviceOf(v)}
}

func fetched[T client.Object](o T) func(context.Context) (T, error) { return expect.Fetched(k8s, o) }

func reading(o client.Object) func(context.Context) error { return expect.Reading(k8s, o) }

func eventsAbout(o client.Object) func(context.Context) ([]eventsv1.Event, error) {
	return expect.EventsAbout(k8s, o)
}

func change[T client.Object](ctx context.Context, o T, f func(T)) {
	GinkgoHelper()
	operator.Change(ctx, k8s, o, f)
}

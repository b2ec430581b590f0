// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// essence returns the compared part of a child: all fields that the operator sets, and the whole
// content of the ConfigMap and the Deployment's Pods.
func essence(o client.Object) map[string]any {
	labels := map[string]string{}
	for _, key := range []string{"name", "instance", "part-of", "managed-by"} {
		labels[key] = o.GetLabels()["app.kubernetes.io/"+key]
	}
	e := map[string]any{"labels": labels, "owners": o.GetOwnerReferences()}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		e["data"], e["binaryData"] = o.Data, len(o.BinaryData)
	case *appsv1.Deployment:
		e["spec"] = o.Spec
	case *corev1.Service:
		e["type"], e["selector"] = o.Spec.Type, o.Spec.Selector
		for _, p := range o.Spec.Ports {
			e["port "+p.Name] = []any{p.Port, p.TargetPort, p.Protocol}
		}
	}
	return e
}

func content(f func(*corev1.ConfigMap)) func(client.Object) {
	return func(o client.Object) { f(o.(*corev1.ConfigMap)) }
}

func rollout(f func(*appsv1.DeploymentSpec)) func(client.Object) {
	return func(o client.Object) { f(&o.(*appsv1.Deployment).Spec) }
}

func pods(f func(p *corev1.PodSpec, viewer *corev1.Container)) func(client.Object) {
	return rollout(func(d *appsv1.DeploymentSpec) { f(&d.Template.Spec, &d.Template.Spec.Containers[0]) })
}

func serviceSpec(f func(*corev1.ServiceSpec)) func(client.Object) {
	return func(o client.Object) { f(&o.(*corev1.Service).Spec) }
}

// The golden reconciles test the decision. Only an API server shows the owner of a changed field,
// in maps, lists and scalars.
var _ = Describe("Drift", func() {
	type childOf = func(*v1beta1.MarkdownView) client.Object
	configMap := func(v *v1beta1.MarkdownView) client.Object { return configMapOf(v) }
	deployment := func(v *v1beta1.MarkdownView) client.Object { return deploymentOf(v) }
	service := func(v *v1beta1.MarkdownView) client.Object { return serviceOf(v) }
	unlabelled := func(o client.Object) { o.SetLabels(nil) }
	relabelled := func(o client.Object) { o.GetLabels()["app.kubernetes.io/instance"] = "another" }
	unblocking := func(o client.Object) { o.GetOwnerReferences()[0].BlockOwnerDeletion = new(false) }

	DescribeTable("is corrected and reported",
		func(ctx SpecContext, childOf childOf, spoils ...func(client.Object)) {
			v := givenReady(ctx, build(unique("drift"),
				func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs = []v1beta1.ViewerArg{"a", "b"} }))
			child := childOf(v)
			By("keeping the fields of other clients")
			change(ctx, child, func(o client.Object) {
				o.SetAnnotations(map[string]string{"example.com/note": "x"})
				if d, ok := o.(*appsv1.Deployment); ok {
					d.Spec.Template.Spec.PriorityClassName = "system-node-critical"
				}
			})
			want := essence(child)
			for i, spoil := range append(spoils, unlabelled, relabelled, unblocking) {
				change(ctx, child, spoil)
				Expect(essence(child)).NotTo(Equal(want), "change %d must have spoiled something", i)
				Eventually(ctx, func(ctx context.Context) (map[string]any, error) {
					child, err := fetched(childOf(v))(ctx)
					return essence(child), err
				}).WithTimeout(expect.Short).Should(Equal(want), "after change %d", i)
			}
			Expect(fetched(child)(ctx)).To(HaveField("GetAnnotations()", HaveKey("example.com/note")))
			Eventually(ctx, eventsAbout(v)).Should(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventDriftCorrected, Note: child.GetName()}))
			Expect(eventsAbout(v)(ctx)).NotTo(expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal,
				Reason: v1beta1.EventContentUpdated}))
		},
		Entry("of a ConfigMap", configMap,
			content(func(c *corev1.ConfigMap) { c.Data["one.md"] = "defaced" }),
			content(func(c *corev1.ConfigMap) { c.Data = nil })),
		Entry("of a Deployment", deployment,
			rollout(func(d *appsv1.DeploymentSpec) { d.Replicas = new(int32(7)) }),
			rollout(func(d *appsv1.DeploymentSpec) { d.Strategy = appsv1.DeploymentStrategy{Type: "Recreate"} }),
			rollout(func(d *appsv1.DeploymentSpec) { d.Template.Annotations = nil }),
			rollout(func(d *appsv1.DeploymentSpec) { delete(d.Template.Labels, "app.kubernetes.io/part-of") }),
			pods(func(p *corev1.PodSpec, _ *corev1.Container) { p.AutomountServiceAccountToken = new(true) }),
			pods(func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext = nil }),
			pods(func(p *corev1.PodSpec, _ *corev1.Container) { p.TopologySpreadConstraints = nil }),
			pods(func(p *corev1.PodSpec, _ *corev1.Container) { p.Volumes[0].ConfigMap.Name = "another" }),
			pods(func(_ *corev1.PodSpec, c *corev1.Container) { c.Args = []string{"b", "a"} }),
			pods(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.Image, c.ReadinessProbe = "example.com/mallory:v1", nil
			}),
			pods(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1Gi")
				delete(c.Resources.Requests, corev1.ResourceCPU)
			}),
			pods(func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.Capabilities = nil })),
		Entry("of a Service", service,
			serviceSpec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }),
			serviceSpec(func(s *corev1.ServiceSpec) { s.Selector["app.kubernetes.io/instance"] = "mallory" }),
			serviceSpec(func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromInt32(1) })),
	)

	It("is none of what the spec drops: a file and all arguments go", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("dropped"), showing(files{"SUMMARY.md": "x", "a.md": "a", "secret.md": "s"}),
			func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs = []v1beta1.ViewerArg{"a"} }))
		change(ctx, v, func(v *v1beta1.MarkdownView) {
			delete(v.Spec.Markdowns, "secret.md")
			v.Spec.ViewerArgs = nil
		})
		Eventually(ctx, fetched(configMapOf(v))).Should(
			HaveField("Data", Equal(map[string]string{"SUMMARY.md": "x", "a.md": "a"})))
		Eventually(ctx, fetched(deploymentOf(v))).Should(
			HaveField("Spec.Template.Spec.Containers", ConsistOf(HaveField("Args", BeEmpty()))))
	})

	It("of an immutable ConfigMap is corrected by a new one, when the text changes", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("immutable")))
		child := configMapOf(v)
		change(ctx, child, func(c *corev1.ConfigMap) { c.Immutable = new(true) })
		change(ctx, v, showing(files{"SUMMARY.md": "- [Two](two.md)\n", "two.md": "# Two\n"}))
		Eventually(ctx, fetched(configMapOf(v))).WithTimeout(expect.Medium).Should(And(expect.BeControlledBy(v),
			HaveField("Immutable", BeNil()), HaveField("GetUID()", Not(Equal(child.UID))),
			HaveField("Data", Equal(map[string]string{"SUMMARY.md": "- [Two](two.md)\n", "two.md": "# Two\n"}))))
		eventuallyReady(ctx, v)
	})

	DescribeTable("of a child that is deleted is corrected and reported", func(ctx SpecContext, childOf childOf) {
		v := givenReady(ctx, build(unique("lost")))
		child := childOf(v)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
		uid := child.GetUID()
		Expect(k8s.Delete(ctx, child)).To(Succeed())
		Eventually(ctx, fetched(childOf(v))).Should(And(HaveField("GetUID()", Not(Equal(uid))), expect.BeControlledBy(v)))
		Eventually(ctx, eventsAbout(v)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventDriftCorrected, Note: "was missing", Times: 1}))
		eventuallyReady(ctx, v)
	},
		Entry("ConfigMap", configMap), Entry("Deployment", deployment), Entry("Service", service))
})

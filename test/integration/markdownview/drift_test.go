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

// what is compared of a child: all that the operator sets, and for the
// ConfigMap and the Deployment's Pods all there is.
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

func podSpec(f func(*corev1.PodSpec)) func(client.Object) {
	return func(o client.Object) { f(&o.(*appsv1.Deployment).Spec.Template.Spec) }
}

func container(f func(*corev1.Container)) func(client.Object) {
	return podSpec(func(p *corev1.PodSpec) { f(&p.Containers[0]) })
}

func content(f func(*corev1.ConfigMap)) func(client.Object) {
	return func(o client.Object) { f(o.(*corev1.ConfigMap)) }
}

func serviceSpec(f func(*corev1.ServiceSpec)) func(client.Object) {
	return func(o client.Object) { f(&o.(*corev1.Service).Spec) }
}

// Every field that the operator sets has an entry here that changes or removes it.
var _ = Describe("Drift", func() {
	type childOf = func(*v1beta1.MarkdownView) client.Object
	configMap := func(v *v1beta1.MarkdownView) client.Object { return configMapOf(v) }
	deployment := func(v *v1beta1.MarkdownView) client.Object { return deploymentOf(v) }
	service := func(v *v1beta1.MarkdownView) client.Object { return serviceOf(v) }
	unlabelled := func(o client.Object) { o.SetLabels(nil) }
	relabelled := func(o client.Object) {
		labels := o.GetLabels()
		labels["app.kubernetes.io/instance"] = "another"
		o.SetLabels(labels)
	}
	unblocking := func(o client.Object) {
		owners := o.GetOwnerReferences()
		owners[0].BlockOwnerDeletion = new(false)
		o.SetOwnerReferences(owners)
	}

	DescribeTable("is corrected and reported",
		func(ctx SpecContext, childOf childOf, spoil func(client.Object)) {
			v := givenReady(ctx, build(unique("drift"),
				func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs = []v1beta1.ViewerArg{"a", "b"} }))
			child := childOf(v)
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
			want := essence(child)
			change(ctx, child, spoil)
			Expect(essence(child)).NotTo(Equal(want), "the spec must have spoiled something")
			Eventually(ctx, func(ctx context.Context) (map[string]any, error) {
				child, err := fetched(childOf(v))(ctx)
				return essence(child), err
			}).WithTimeout(expect.Short).Should(Equal(want))
			Eventually(ctx, eventsAbout(v)).Should(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventDriftCorrected, Note: child.GetName()}))
			eventuallyReady(ctx, v)
			Expect(eventsAbout(v)(ctx)).NotTo(expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal,
				Reason: v1beta1.EventContentUpdated}))
		},
		Entry("content changed", configMap, content(func(c *corev1.ConfigMap) { c.Data["one.md"] = "defaced" })),
		Entry("a file removed", configMap, content(func(c *corev1.ConfigMap) { delete(c.Data, "one.md") })),
		Entry("a file added", configMap, content(func(c *corev1.ConfigMap) { c.Data["stray.md"] = "x" })),
		Entry("a binary file added", configMap,
			content(func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"stray.bin": {1}} })),
		Entry("a file changed, one removed and one added", configMap, content(func(c *corev1.ConfigMap) {
			c.Data = map[string]string{"one.md": "defaced", "stray.md": "x"}
		})),
		Entry("the ConfigMap's labels removed", configMap, unlabelled),
		Entry("the Deployment's labels removed", deployment, unlabelled),
		Entry("the Service's labels removed", service, unlabelled),
		Entry("the ConfigMap's labels changed", configMap, relabelled),
		Entry("the Deployment's labels changed", deployment, relabelled),
		Entry("the Service's labels changed", service, relabelled),
		Entry("the ConfigMap's owner reference changed", configMap, unblocking),
		Entry("the Deployment's owner reference changed", deployment, unblocking),
		Entry("the Service's owner reference changed", service, unblocking),
		Entry("replicas", deployment, func(o client.Object) { o.(*appsv1.Deployment).Spec.Replicas = new(int32(7)) }),
		Entry("history", deployment, func(o client.Object) {
			o.(*appsv1.Deployment).
				Spec.RevisionHistoryLimit = new(int32(9))
		}),
		Entry("strategy", deployment, func(o client.Object) {
			o.(*appsv1.Deployment).Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}),
		Entry("surge", deployment, func(o client.Object) {
			o.(*appsv1.Deployment).Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		}),
		Entry("content hash", deployment, func(o client.Object) { o.(*appsv1.Deployment).Spec.Template.Annotations = nil }),
		Entry("the Pods' labels", deployment, func(o client.Object) {
			delete(o.(*appsv1.Deployment).Spec.Template.Labels, "app.kubernetes.io/part-of")
		}),
		Entry("a token", deployment, podSpec(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) })),
		Entry("service links", deployment, podSpec(func(p *corev1.PodSpec) { p.EnableServiceLinks = nil })),
		Entry("root", deployment, podSpec(func(p *corev1.PodSpec) { p.SecurityContext = nil })),
		Entry("another user", deployment, podSpec(func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(1)) })),
		Entry("seccomp", deployment, podSpec(func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil })),
		Entry("spread", deployment, podSpec(func(p *corev1.PodSpec) { p.TopologySpreadConstraints = nil })),
		Entry("other content mounted", deployment,
			podSpec(func(p *corev1.PodSpec) { p.Volumes[0].ConfigMap.Name = "another" })),
		Entry("scratch", deployment, podSpec(func(p *corev1.PodSpec) { p.Volumes[1].EmptyDir.SizeLimit = nil })),
		Entry("image", deployment, container(func(c *corev1.Container) { c.Image = "example.com/mallory:v1" })),
		Entry("arguments changed", deployment, container(func(c *corev1.Container) { c.Args = []string{"b", "a"} })),
		Entry("arguments removed", deployment, container(func(c *corev1.Container) { c.Args = nil })),
		Entry("port", deployment, container(func(c *corev1.Container) { c.Ports[0].Name = "other" })),
		Entry("readiness", deployment, container(func(c *corev1.Container) { c.ReadinessProbe = nil })),
		Entry("liveness", deployment, container(func(c *corev1.Container) { c.LivenessProbe.HTTPGet.Path = "/other" })),
		Entry("request", deployment, container(func(c *corev1.Container) {
			delete(c.Resources.Requests,
				corev1.ResourceCPU)
		})),
		Entry("limit", deployment, container(
			func(c *corev1.Container) { c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1Gi") })),
		Entry("capabilities", deployment, container(func(c *corev1.Container) { c.SecurityContext.Capabilities = nil })),
		Entry("escalation", deployment,
			container(func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil })),
		Entry("a root file system to write to", deployment,
			container(func(c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = new(false) })),
		Entry("a mount to write to", deployment, container(func(c *corev1.Container) { c.VolumeMounts[0].ReadOnly = false })),
		Entry("type", service, serviceSpec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })),
		Entry("selector changed", service,
			serviceSpec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "mallory"} })),
		Entry("selector narrowed", service, serviceSpec(func(s *corev1.ServiceSpec) { s.Selector["app"] = "none" })),
		Entry("target port", service, serviceSpec(
			func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromInt32(1) })),
		Entry("a container beside the viewer", deployment, podSpec(func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "miner", Image: "example.com/miner:v1"})
		})),
		Entry("the container renamed", deployment, container(func(c *corev1.Container) { c.Name = "other" })),
		Entry("the port renumbered", deployment, container(func(c *corev1.Container) { c.Ports[0].ContainerPort = 3001 })),
		Entry("a port beside", deployment, container(func(c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: "other", ContainerPort: 1})
		})),
		Entry("the volume renamed", deployment, podSpec(func(p *corev1.PodSpec) {
			p.Volumes[0].Name, p.Containers[0].VolumeMounts[0].Name = "other", "other"
		})),
		Entry("a volume beside", deployment, podSpec(func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
			p.Containers[0].VolumeMounts = append(p.Containers[0].VolumeMounts,
				corev1.VolumeMount{Name: "host", MountPath: "/host"})
		})),
		Entry("the mount moved", deployment, container(func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "/other" })),
		Entry("a port beside that of the Service", service, serviceSpec(func(s *corev1.ServiceSpec) {
			s.Ports = append(s.Ports, corev1.ServicePort{Name: "other", Port: 81})
		})),
		Entry("port of the Service", service, serviceSpec(func(s *corev1.ServiceSpec) { s.Ports[0].Port = 81 })),
	)

	DescribeTable("of a child that is deleted is corrected and reported", func(ctx SpecContext, childOf childOf) {
		v := givenReady(ctx, build(unique("lost")))
		child := childOf(v)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
		uid, want := child.GetUID(), essence(child)
		Expect(k8s.Delete(ctx, child)).To(Succeed())
		again := childOf(v)
		Eventually(ctx, fetched(again)).Should(And(HaveField("GetUID()", Not(Equal(uid))), expect.BeControlledBy(v)))
		if _, isDeployment := again.(*appsv1.Deployment); !isDeployment { // whose fields carry the time of the rollout
			Expect(essence(again)).To(Equal(want))
		}
		Eventually(ctx, eventsAbout(v)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventDriftCorrected, Note: "was missing", Times: 1}))
		eventuallyReady(ctx, v)
	},
		Entry("ConfigMap", configMap), Entry("Deployment", deployment), Entry("Service", service))

	It("of viewers that were deleted is not called serving", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("down")))
		Expect(k8s.Delete(ctx, deploymentOf(v))).To(Succeed())
		Eventually(ctx, fetched(v)).Should(And(
			expect.HaveCondition(v1beta1.ConditionAvailable, "False", v1beta1.ReasonProgressing),
			HaveField("Status.AvailableReplicas", BeZero())))
	})

	It("is not what others add to: their own fields stay", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("others")))
		deployment := deploymentOf(v)
		change(ctx, deployment, func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{"example.com/note": "x"}
			d.Spec.Template.Spec.PriorityClassName = "system-node-critical"
		})
		version := deployment.ResourceVersion
		change(ctx, configMapOf(v), func(c *corev1.ConfigMap) { c.Data["one.md"] = "defaced" })
		// it was alive
		Eventually(ctx, fetched(configMapOf(v))).Should(HaveField("Data", HaveKeyWithValue("one.md", "# One\n")))
		Expect(fetched(deployment)(ctx)).To(HaveField("ResourceVersion", version))
		Expect(v).To(expect.HaveCondition(v1beta1.ConditionDegraded, "False"))
	})
})

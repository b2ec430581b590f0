package markdownview_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/expect"
)

var _ = Describe("The viewers' Pods", func() {
	It("are admitted where `restricted` is enforced, and have no token", func(ctx SpecContext) {
		suite.NeedsControllers() // for the default ServiceAccount
		ns := newNamespace(ctx, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		v := given(ctx, build(unique("strict"), in(ns)))
		eventuallyObserved(ctx, v)
		template := func() *corev1.Pod {
			d := deploymentOf(v)
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: unique("pod"), Labels: d.Spec.Template.Labels,
					Annotations: d.Spec.Template.Annotations},
				Spec: d.Spec.Template.Spec,
			}
		}
		Eventually(ctx, func(ctx context.Context) error { return k8s.Create(ctx, template(), client.DryRunAll) }).
			WithTimeout(expect.Medium).Should(Succeed())
		pod := template()
		Expect(k8s.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		Expect(pod.Spec.Volumes).To(HaveLen(2), "a token would be one more volume")
		Expect(pod.Spec.EnableServiceLinks).To(HaveValue(BeFalse()))

		By("being refused otherwise, so that the check is known to check")
		for reason, spoil := range map[string]func(*corev1.PodSpec){
			"runAsNonRoot":   func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
			"seccompProfile": func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil },
			"capabilities":   func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil },
			"allowPrivilegeEscalation": func(p *corev1.PodSpec) {
				p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
			},
		} {
			bad := template()
			spoil(&bad.Spec)
			err := k8s.Create(ctx, bad, client.DryRunAll)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", reason, err)
			Expect(err).To(MatchError(ContainSubstring(reason)))
		}
	})

	It("have the content to read, scratch to write to, and nothing else", func(ctx SpecContext) {
		v := given(ctx, build(unique("pod")))
		eventuallyObserved(ctx, v)
		d := deploymentOf(v)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		pod := d.Spec.Template.Spec
		Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(pod.Volumes).To(ConsistOf(
			And(HaveField("Name", "content"), HaveField("ConfigMap.Name", configMapOf(v).Name)),
			And(HaveField("Name", "scratch"), HaveField("EmptyDir", Not(BeNil())))))
		Expect(pod.Containers).To(HaveLen(1))
		c := pod.Containers[0]
		Expect(c.Image).To(MatchRegexp(`^[^:]+:[^:]+$`), "the default image has a tag")
		Expect(c.Image).NotTo(HaveSuffix(":latest"))
		Expect(c.VolumeMounts).To(ConsistOf(
			And(HaveField("MountPath", "/book/src"), HaveField("ReadOnly", true)), HaveField("MountPath", "/tmp")))
		Expect(c.Env).To(BeEmpty())
		Expect(c.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
		Expect(c.Ports).To(ConsistOf(And(HaveField("Name", "http"), HaveField("ContainerPort", BeEquivalentTo(3000)))))
		for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
			Expect(probe.HTTPGet.Path).To(Equal("/"))
			Expect(probe.HTTPGet.Port.String()).To(Equal("http"))
		}
		Expect(c.Resources.Requests).To(HaveLen(2))
		Expect(c.Resources.Limits).To(HaveKey(corev1.ResourceMemory))
		Expect(pod.TopologySpreadConstraints).To(ConsistOf(HaveField("WhenUnsatisfiable", corev1.ScheduleAnyway)))
	})
})

// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	"context"
	"encoding/json"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("A MarkdownView", func() {
	It("gets its ConfigMap, Deployment and Service, and reports the address of the page", func(ctx SpecContext) {
		v := given(ctx, build(unique("life"), replicas(2)))
		Expect(operator.Kstatus(v)).To(Equal(status.InProgressStatus), "before the operator has observed it")
		eventuallyObserved(ctx, v)
		Expect(operator.Kstatus(v)).To(Equal(status.InProgressStatus))

		By("reporting progress")
		Expect(v).To(And(
			expect.HaveCondition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonProgressing),
			expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse, v1beta1.ReasonAsExpected),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonProgressing)))

		By("controlling each child, by an owner reference that a foreground deletion waits for")
		owner := metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView",
			Name: v.Name, UID: v.UID, Controller: new(true), BlockOwnerDeletion: new(true)}
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(And(
				expect.BeControlledBy(v), expect.HaveOwnerReferences(owner), HaveField("GetFinalizers()", BeEmpty()),
				HaveField("GetLabels()", And(
					HaveKeyWithValue("app.kubernetes.io/managed-by", "leasehold"),
					HaveKeyWithValue("app.kubernetes.io/instance", v.Name)))))
		}
		configMap, deployment, service := configMapOf(v), deploymentOf(v), serviceOf(v)
		Expect(fetched(configMap)(ctx)).To(HaveField("Data", Equal(map[string]string{
			"SUMMARY.md": "- [One](one.md)\n", "one.md": "# One\n"})))
		Expect(fetched(service)(ctx)).To(And(
			HaveField("Spec.Ports", ConsistOf(And(HaveField("Port", BeEquivalentTo(80)),
				HaveField("TargetPort", intstr.FromString("http"))))),
			HaveField("Spec.Type", corev1.ServiceTypeClusterIP)))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		Expect(deployment.Spec.Template.Labels).To(And(
			HaveKeyWithValue("app.kubernetes.io/instance", v.Name),
			HaveKeyWithValue("app.kubernetes.io/name", "markdownview-viewer")))
		Expect(service.Spec.Selector).To(Equal(deployment.Spec.Selector.MatchLabels),
			"the Service must lead to these viewers and to no others")
		Expect(deployment.Spec.Template.Annotations).To(HaveKeyWithValue(v1beta1.AnnotationContentHash, v.Status.ContentHash))

		By("being Ready when its viewers are")
		deploymentSays(ctx, v, func(d *appsv1.Deployment) {
			d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 2, 2, 1, 1
			progressing(d, corev1.ConditionTrue, "ReplicaSetUpdated")
		})
		Eventually(ctx, fetched(v)).Should(And(
			expect.HaveCondition(v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonReplicasAvailable),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonProgressing),
			HaveField("Status.AvailableReplicas", BeEquivalentTo(1))))
		eventuallyReady(ctx, v)
		Expect(operator.Kstatus(v)).To(Equal(status.CurrentStatus))
		Expect(v.Status).To(And(
			HaveField("AvailableReplicas", BeEquivalentTo(2)), HaveField("Replicas", BeEquivalentTo(2)),
			HaveField("URL", "http://viewer-"+v.Name+".default.svc"), HaveField("ContentHash", HaveLen(64))))

		By("recording one event for that, in its own namespace")
		Eventually(ctx, eventsAbout(v)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventAvailable, Times: 1}))
		Expect(eventsAbout(v)(ctx)).To(HaveLen(1))
	})

	It("shows what matters in columns, and can be waited for from the start", func(ctx SpecContext) {
		v := given(ctx, build(unique("show")))
		waited := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			_, err := suite.Kubectl(ctx, "wait", "--for=condition=Ready", "markdownview/"+v.Name, "-n", v.Namespace,
				"--timeout=30s")
			waited <- err
		}()
		eventuallyReady(ctx, v)
		Eventually(ctx, waited).WithTimeout(expect.Medium).Should(Receive(BeNil()))
		columns, cells := suite.Table(ctx, "markdownviews", v.Namespace, v.Name)
		Expect(columns).To(HaveExactElements("Name/0", "Replicas/0", "Available/0", "Ready/0", "Paused/0", "URL/1",
			"Age/0"))
		Expect(cells[:6]).To(HaveExactElements(v.Name, BeEquivalentTo(1), BeEquivalentTo(1), "True", nil, v.Status.URL))

		By("having its conditions in the first written status")
		first := build(v.Name)
		suite.FirstStatus("markdownviews", first)
		for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionAvailable, v1beta1.ConditionDegraded} {
			Expect(first.Status.Conditions).To(ContainElement(HaveField("Type", kind)))
		}
		Expect(first.Status.ObservedGeneration).To(BeEquivalentTo(1))
		By("being found by its short name and its category")
		Expect(suite.Kubectl(ctx, "get", "mdv,leasehold", "-n", v.Namespace)).To(ContainSubstring(v.Name))
	})

	It("takes another viewer with its arguments, and drops them again", func(ctx SpecContext) {
		v := given(ctx, build(unique("mdbook"), image("example.com/mdbook:v0.4.52"), func(v *v1beta1.MarkdownView) {
			v.Spec.ViewerArgs = []v1beta1.ViewerArg{"serve", "--hostname", "0.0.0.0", "--dest-dir", "/tmp/book"}
		}))
		eventuallyObserved(ctx, v)
		container := func(ctx context.Context) (corev1.Container, error) {
			d, err := fetched(deploymentOf(v))(ctx)
			if err != nil || len(d.Spec.Template.Spec.Containers) != 1 {
				return corev1.Container{}, err
			}
			return d.Spec.Template.Spec.Containers[0], nil
		}
		Expect(container(ctx)).To(And(
			HaveField("Image", "example.com/mdbook:v0.4.52"),
			HaveField("Args", HaveExactElements("serve", "--hostname", "0.0.0.0", "--dest-dir", "/tmp/book"))))
		change(ctx, v, func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs, v.Spec.ViewerImage = nil, "" })
		Eventually(ctx, container).Should(And(HaveField("Image", "leasehold-viewer:dev"), HaveField("Args", BeEmpty())))
	})

	It("can be scaled by kubectl within its limits, and not beyond", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("scale")))
		for _, n := range []string{"9", "6", "0"} {
			out, err := suite.Kubectl(ctx, "scale", "mdv", v.Name, "-n", v.Namespace, "--replicas="+n)
			Expect(err).To(HaveOccurred(), out)
			Expect(out).To(ContainSubstring("spec.replicas"), "the limit must be named")
			Expect(out).To(MatchRegexp("less than or equal to 5|greater than or equal to 1"))
		}
		out, err := suite.Kubectl(ctx, "scale", "mdv", v.Name, "-n", v.Namespace, "--replicas=3")
		Expect(err).NotTo(HaveOccurred(), out)
		Eventually(ctx, fetched(deploymentOf(v))).Should(HaveField("Spec.Replicas", HaveValue(BeEquivalentTo(3))))
		eventuallyReady(ctx, v)
		Expect(v.Status.Replicas).To(BeEquivalentTo(3))

		By("having the fields that autoscalers need")
		var scale struct {
			Spec   struct{ Replicas int32 }
			Status struct {
				Replicas int32
				Selector string
			}
		}
		raw, err := suite.Kubectl(ctx, "get", "mdv", v.Name, "-n", v.Namespace, "--subresource=scale", "-o", "json")
		Expect(err).NotTo(HaveOccurred(), raw)
		Expect(json.Unmarshal([]byte(raw), &scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(BeEquivalentTo(3))
		Expect(scale.Status.Replicas).To(BeEquivalentTo(3))
		Expect(scale.Status.Selector).
			To(Equal("app.kubernetes.io/instance=" + v.Name + ",app.kubernetes.io/name=markdownview-viewer"))
	})

	It("reports when its viewers do not come up, and when they have gone", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("stuck")))
		By("losing all viewers after they were there")
		deploymentSays(ctx, v, func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.ReadyReplicas = 0, 0 })
		Eventually(ctx, fetched(v)).Should(And(
			expect.HaveCondition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReplicasAvailable),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNoReplicasAvailable),
			HaveField("Status.Conditions", Not(ContainElement(HaveField("Type", v1beta1.ConditionStalled))))))

		By("giving up on a rollout")
		deploymentSays(ctx, v, func(d *appsv1.Deployment) {
			progressing(d, corev1.ConditionFalse, "ProgressDeadlineExceeded")
		})
		Eventually(ctx, fetched(v)).Should(And(
			expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonRolloutStalled),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonRolloutStalled),
			expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonRolloutStalled)))
		Eventually(ctx, eventsAbout(v)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventDegraded, Note: "do not become ready", Times: 1}))

		By("passing on why Pods are refused")
		deploymentSays(ctx, v, func(d *appsv1.Deployment) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
				Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
				Message: `pods "viewer-x" is forbidden: failed quota: compute-resources: must specify limits.cpu for: viewer`})
		})
		Eventually(ctx, fetched(v)).Should(And(
			expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonQuotaExceeded),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", ContainSubstring("compute-resources"))))))

		By("recovering")
		eventuallyReady(ctx, v)
		Expect(v.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1beta1.ConditionStalled)))
		Expect(v).To(expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse, v1beta1.ReasonAsExpected))
	})

	It("is paused, resumed and reconciled on request by annotations", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("pause")))
		annotated := func(key, value string) {
			GinkgoHelper()
			change(ctx, v, func(v *v1beta1.MarkdownView) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, key, value) })
		}
		annotated(v1beta1.AnnotationPaused, "true")
		Eventually(ctx, fetched(v)).Should(And(
			expect.HaveCondition(v1beta1.ConditionPaused, metav1.ConditionTrue, v1beta1.ReasonPaused),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue)))
		content := configMapOf(v)
		change(ctx, content, func(c *corev1.ConfigMap) { c.Data["one.md"] = "defaced" })
		annotated(v1beta1.AnnotationRequestedAt, "now")
		// The reconcile of another view, made later, shows that the operator is alive.
		eventuallyReady(ctx, given(ctx, build(unique("pause-other"))))
		Expect(fetched(content)(ctx)).To(HaveField("Data", HaveKeyWithValue("one.md", "defaced")))
		annotated(v1beta1.AnnotationPaused, "false")
		Eventually(ctx, fetched(content)).Should(HaveField("Data", HaveKeyWithValue("one.md", "# One\n")))
		Eventually(ctx, fetched(v)).Should(And(HaveField("Status.LastHandledReconcileAt", "now"),
			HaveField("Status.Conditions", Not(ContainElement(HaveField("Type", v1beta1.ConditionPaused))))))
	})
})

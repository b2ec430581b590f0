package markdownview_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// strangers are objects of the children's names that are not the operator's.
var strangers = map[string]func(*v1beta1.MarkdownView) client.Object{
	"ConfigMap": func(v *v1beta1.MarkdownView) client.Object {
		c := configMapOf(v)
		c.Data = map[string]string{"SUMMARY.md": "a stranger's"}
		return c
	},
	"Deployment": func(v *v1beta1.MarkdownView) client.Object {
		d := deploymentOf(v)
		labels := map[string]string{"app": "stranger"}
		d.Spec = appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:v1"}}},
			}}
		return d
	},
	"Service": func(v *v1beta1.MarkdownView) client.Object {
		s := serviceOf(v)
		s.Spec = corev1.ServiceSpec{Selector: map[string]string{"app": "stranger"}, Ports: []corev1.ServicePort{{Port: 81}}}
		return s
	},
}

func inConflict() OmegaMatcher {
	return And(
		expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonChildConflict),
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonChildConflict),
		expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonChildConflict))
}

var _ = Describe("What does not belong to a MarkdownView", func() {
	DescribeTable("keeps what was there before, and gives way once it is gone",
		func(ctx SpecContext, kind string, marked bool) {
			v := build(unique("clash"))
			stranger := strangers[kind](v)
			if marked { // any user can set the label, so it proves no ownership
				stranger.SetLabels(map[string]string{v1beta1.LabelManagedBy: v1beta1.ManagedByValue})
			}
			Expect(k8s.Create(ctx, stranger)).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				Expect(client.IgnoreNotFound(k8s.Delete(ctx, stranger.DeepCopyObject().(client.Object)))).To(Succeed())
			})
			uid, version := stranger.GetUID(), stranger.GetResourceVersion()
			given(ctx, v)
			Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(inConflict())
			Eventually(ctx, eventsAbout(v)).Should(And(
				expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventChildConflict,
					Note: stranger.GetName()}),
				expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventDegraded,
					Note: stranger.GetName()})))

			By("seeing to the others, but never showing a stranger's content")
			for _, child := range childrenOf(v) {
				switch {
				case child.GetName() == stranger.GetName() && sameKind(child, stranger):
				case kind == "ConfigMap" && sameKind(child, deploymentOf(v)):
					Expect(reading(child)(ctx)).To(expect.BeGone())
				default:
					Expect(fetched(child)(ctx)).To(expect.BeControlledBy(v))
				}
			}
			Expect(fetched(stranger)(ctx)).To(And(
				HaveField("GetUID()", uid), HaveField("GetResourceVersion()", version),
				HaveField("GetOwnerReferences()", BeEmpty())))

			By("going on by itself once it is gone")
			Expect(k8s.Delete(ctx, stranger)).To(Succeed())
			Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(
				expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse, v1beta1.ReasonAsExpected))
			for _, child := range childrenOf(v) {
				Expect(fetched(child)(ctx)).To(expect.BeControlledBy(v))
			}
			eventuallyReady(ctx, v)
			Expect(v.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1beta1.ConditionStalled)))
			Expect(eventsAbout(v)(ctx)).NotTo(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventDriftCorrected}),
				"making what was missing is no correction")
		},
		Entry("ConfigMap", "ConfigMap", false),
		Entry("Deployment", "Deployment", false),
		Entry("Service", "Service", false),
		Entry("ConfigMap with our label", "ConfigMap", true),
		Entry("Deployment with our label", "Deployment", true),
		Entry("Service with our label", "Service", true),
	)

	It("is not made ours by an owner reference that is no controller's", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("owner")))
		configMap := configMapOf(v)
		change(ctx, configMap, func(c *corev1.ConfigMap) {
			c.OwnerReferences = nil
			Expect(controllerutil.SetOwnerReference(v, c, k8s.Scheme())).To(Succeed())
			c.Data = map[string]string{"SUMMARY.md": "a stranger's"}
		})
		Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(inConflict())
		Expect(configMap).To(expect.BeOwnedBy(v))
		version := configMap.ResourceVersion
		change(ctx, v, showing(files{"SUMMARY.md": "other"}))
		eventuallyObserved(ctx, v)
		Expect(fetched(configMap)(ctx)).To(And(HaveField("ResourceVersion", version), Not(expect.BeControlledBy(v))))

		By("not taking an object that another owner controls either")
		Expect(controllerutil.SetControllerReference(v, configMap, k8s.Scheme())).To(Succeed(), "a stranger may give it back")
		Expect(k8s.Update(ctx, configMap)).To(Succeed())
		Eventually(ctx, fetched(configMap)).Should(HaveField("Data", Equal(map[string]string{"SUMMARY.md": "other"})))
		other := givenReady(ctx, build(unique("other")))
		Expect(controllerutil.SetControllerReference(other, configMap, k8s.Scheme())).NotTo(Succeed(),
			"there is one controller at most")
	})

	It("is another's, even if that is a MarkdownView", func(ctx SpecContext) {
		other := givenReady(ctx, build(unique("other")))
		v := build(unique("taken"))
		stranger := configMapOf(v)
		Expect(controllerutil.SetControllerReference(other, stranger, k8s.Scheme())).To(Succeed())
		stranger.Labels = map[string]string{v1beta1.LabelManagedBy: v1beta1.ManagedByValue}
		Expect(k8s.Create(ctx, stranger)).To(Succeed())
		given(ctx, v)
		Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(inConflict())
		Expect(fetched(stranger)(ctx)).To(And(expect.BeControlledBy(other), HaveField("Data", BeEmpty())))
		Expect(fetched(other)(ctx)).To(expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue))
	})

	It("cannot be in another namespace: an owner reference does not reach there", func(ctx SpecContext) {
		suite.NeedsControllers()
		v := givenReady(ctx, build(unique("here")))
		elsewhere := configMapOf(v)
		elsewhere.Namespace = newNamespace(ctx, nil)
		Expect(controllerutil.SetControllerReference(v, elsewhere, k8s.Scheme())).NotTo(Succeed())
		elsewhere.OwnerReferences = configMapOwners(ctx, v)
		elsewhere.Labels = map[string]string{v1beta1.LabelManagedBy: v1beta1.ManagedByValue}
		Expect(k8s.Create(ctx, elsewhere)).To(Succeed())
		Eventually(ctx, reading(elsewhere)).WithTimeout(expect.Long).Should(expect.BeGone(),
			"its owner is not in its namespace")
		Expect(fetched(v)(ctx)).To(expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue))
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(And(expect.BeControlledBy(v), HaveField("GetNamespace()", v.Namespace)))
		}
	})
})

var _ = Describe("When a MarkdownView is deleted", func() {
	BeforeEach(suite.NeedsControllers)

	DescribeTable("its children go with it, and are not made anew",
		func(ctx SpecContext, propagation metav1.DeletionPropagation) {
			v := givenReady(ctx, build(unique("gone")))
			Expect(v).To(expect.HaveNoFinalizers(), "deleting needs no controller")
			Expect(k8s.Delete(ctx, v, client.PropagationPolicy(propagation))).To(Succeed())
			Eventually(ctx, reading(v)).WithTimeout(expect.Long).Should(expect.BeGone())
			for _, child := range childrenOf(v) {
				Eventually(ctx, reading(child)).WithTimeout(expect.Long).Should(expect.BeGone())
			}
			By("watching for what a late controller might put back")
			alive := givenReady(ctx, build(unique("alive")))
			Consistently(func(g Gomega) {
				for _, child := range childrenOf(v) {
					g.Expect(reading(child)(ctx)).To(expect.BeGone())
				}
			}).WithTimeout(time.Second).Should(Succeed())
			change(ctx, alive, replicas(2))
			eventuallyReady(ctx, alive)
		},
		Entry("in the background", metav1.DeletePropagationBackground),
		Entry("in the foreground", metav1.DeletePropagationForeground),
	)

	It("its children are left when they are orphaned, and are then strangers", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("orphan")))
		Expect(k8s.Delete(ctx, v, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, reading(v)).WithTimeout(expect.Long).Should(expect.BeGone())
		for _, child := range childrenOf(v) {
			DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, child)).To(Succeed()) })
			Expect(fetched(child)(ctx)).To(And(expect.HaveOwnerReferences(), Not(expect.BeTerminating())))
		}
		again := given(ctx, build(v.Name))
		Eventually(ctx, fetched(again)).WithTimeout(expect.Medium).Should(inConflict())
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(expect.HaveOwnerReferences())
		}
	})

	It("another of the same name gets children of its own, and keeps them (UIDs, not names)", func(ctx SpecContext) {
		first := givenReady(ctx, build(unique("anew")))
		Expect(k8s.Delete(ctx, first)).To(Succeed())
		second := given(ctx, build(first.Name, replicas(2)))
		Expect(second.UID).NotTo(Equal(first.UID))
		Eventually(func(g Gomega) {
			for _, child := range childrenOf(second) {
				g.Expect(fetched(child)(ctx)).To(And(expect.BeControlledBy(second), Not(expect.BeTerminating())))
			}
		}).WithContext(ctx).WithTimeout(expect.Long).Should(Succeed())
		eventuallyReady(ctx, second)
		Expect(eventsAbout(second)(ctx)).NotTo(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventChildConflict}),
			"an object that is being deleted is no conflict")

		By("surviving a delete that was meant for the first")
		for _, o := range append(childrenOf(second), second) {
			uid := first.UID
			Expect(k8s.Delete(ctx, o, client.Preconditions{UID: &uid})).
				To(MatchError(ContainSubstring("the UID in the precondition")))
			Expect(fetched(o)(ctx)).NotTo(expect.BeTerminating())
		}
	})

	It("its namespace can go with all that is in it", func(ctx SpecContext) {
		ns := newNamespace(ctx, nil)
		v := givenReady(ctx, build(unique("space"), in(ns)))
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		Expect(k8s.Delete(ctx, space)).To(Succeed())
		Eventually(ctx, reading(space)).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(reading(v)(ctx)).To(expect.BeGone())
	})
})

func sameKind(a, b client.Object) bool {
	GinkgoHelper()
	kind, err := k8s.GroupVersionKindFor(a)
	Expect(err).NotTo(HaveOccurred())
	other, err := k8s.GroupVersionKindFor(b)
	Expect(err).NotTo(HaveOccurred())
	return kind == other
}

// configMapOwners are the owner references that the view's ConfigMap has.
func configMapOwners(ctx context.Context, v *v1beta1.MarkdownView) []metav1.OwnerReference {
	GinkgoHelper()
	c := configMapOf(v)
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
	return c.OwnerReferences
}

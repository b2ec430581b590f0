// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// The golden reconciles test the decision about each object. These specs need the garbage
// collector, the namespace controller or the authorizer.
var _ = Describe("What does not belong to a Tenant", func() {
	It("keeps an existing namespace, and the Tenant becomes Ready after its removal", func(ctx SpecContext) {
		suite.NeedsControllers()
		name := unique("clash")
		victim := stranger(ctx, name+"-dev")
		t := given(ctx, build(name))
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict),
			expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonNamespaceConflict)))
		Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventFailed, Note: victim.Name}))
		By("providing the other namespace, and changing nothing in the foreign one")
		Expect(fetched(bindingIn(name + "-prod"))(ctx)).To(expect.BeControlledBy(t))
		var bindings rbacv1.RoleBindingList
		Expect(k8s.List(ctx, &bindings, client.InNamespace(victim.Name))).To(Succeed())
		Expect(bindings.Items).To(BeEmpty())
		Expect(fetched(namespaceOf(victim.Name))(ctx)).To(HaveField("ResourceVersion", victim.ResourceVersion))

		Expect(k8s.Delete(ctx, victim)).To(Succeed())
		Eventually(ctx, fetched(t)).WithTimeout(expect.Long).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
		Expect(t.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1beta1.ConditionStalled)))
	})
})

var _ = Describe("Drift", func() {
	It("of a namespace's marks and pod-security level is put back", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("drift"), suffixes("dev")))
		ns := namespaceOf(t.Name + "-dev")
		change(ctx, ns, func(ns *corev1.Namespace) {
			ns.OwnerReferences, ns.Annotations, ns.Labels = nil, nil, map[string]string{
				"kubernetes.io/metadata.name": ns.Name, "pod-security.kubernetes.io/enforce": "privileged", "team": "x"}
		})
		Eventually(ctx, fetched(ns)).WithTimeout(expect.Short).Should(And(
			expect.BeControlledBy(t),
			HaveField("Annotations", HaveKeyWithValue(v1beta1.AnnotationTenantUID, string(t.UID))),
			HaveField("Labels", HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline")),
			HaveField("Labels", HaveKeyWithValue("team", "x"))))
		By("naming what it was and what it is")
		const level = `pod-security.kubernetes.io/enforce was "privileged" and is "baseline"`
		Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventDriftCorrected, Note: level}))
		Eventually(ctx, fetched(t)).Should(And(
			expect.HaveCondition(v1beta1.ConditionDriftCorrected, metav1.ConditionTrue, v1beta1.ReasonDriftCorrected),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", ContainSubstring(level))))))

		By("keeping a stricter level")
		change(ctx, ns, func(ns *corev1.Namespace) {
			ns.Labels["pod-security.kubernetes.io/enforce"], ns.Labels[v1beta1.LabelManagedBy] = "restricted", "other"
		})
		Eventually(ctx, fetched(ns)).Should(And(
			HaveField("Labels", HaveKeyWithValue(v1beta1.LabelManagedBy, v1beta1.ManagedByValue)),
			HaveField("Labels", HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))))
	})

	It("of the admins' right to read their Tenant is put back", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("read"), suffixes("dev")))
		meta := metav1.ObjectMeta{Name: "leasehold:tenant-reader:" + t.Name}
		role, binding := &rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		rules := role.Rules
		change(ctx, role, func(r *rbacv1.ClusterRole) { r.Rules[0].Verbs = []string{"get", "delete"} })
		Expect(k8s.Delete(ctx, binding)).To(Succeed())
		Eventually(ctx, fetched(role)).Should(HaveField("Rules", Equal(rules)))
		Eventually(ctx, fetched(&rbacv1.ClusterRoleBinding{ObjectMeta: meta})).Should(And(expect.BeControlledBy(t),
			HaveField("Subjects", HaveLen(1)), HaveField("RoleRef.Name", meta.Name)))
	})

	DescribeTable("of the admins' binding is put back and reported",
		func(ctx SpecContext, spoil func(SpecContext, *rbacv1.RoleBinding)) {
			t := givenReady(ctx, build(unique("bind"), suffixes("dev")))
			binding := bindingIn(t.Name + "-dev")
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
			want := binding.DeepCopy()
			spoil(ctx, binding)
			restored := bindingIn(t.Name + "-dev")
			Eventually(ctx, fetched(restored)).WithTimeout(expect.Short).Should(And(
				expect.BeControlledBy(t),
				HaveField("RoleRef", Equal(want.RoleRef)),
				HaveField("Subjects", Equal(want.Subjects)),
				HaveField("Annotations", Equal(want.Annotations))))
			Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventAdminBindingRepaired, Note: binding.Namespace}))
			eventuallyReady(ctx, t)
		},
		Entry("when it is deleted", func(ctx SpecContext, b *rbacv1.RoleBinding) {
			Expect(k8s.Delete(ctx, b)).To(Succeed())
		}),
		Entry("when it is replaced by one to another role (roleRef is immutable)",
			func(ctx SpecContext, b *rbacv1.RoleBinding) {
				other := bindingIn(b.Namespace)
				other.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
				other.Subjects = b.Subjects
				Eventually(func(g Gomega) { // the operator concurrently restores its own
					g.Expect(client.IgnoreNotFound(k8s.Delete(ctx, b))).To(Succeed())
					g.Expect(k8s.Create(ctx, other.DeepCopy())).To(Succeed())
				}).WithTimeout(expect.Short).Should(Succeed())
			}),
	)
})

var _ = Describe("The rights of admins", func() {
	BeforeEach(suite.NeedsControllers)

	It("pass from one to another in one step", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("pass"), suffixes("dev")))
		ns, first := t.Name+"-dev", "admin-of-"+t.Name
		Eventually(ctx, userCan(first, "create", "deployments", ns, "")).Should(BeTrue())
		change(ctx, t, admins(v1beta1.Subject{Kind: v1beta1.SubjectUser, Name: "second"}))
		eventuallyReady(ctx, t)
		Eventually(ctx, userCan("second", "create", "deployments", ns, "")).Should(BeTrue())
		Eventually(ctx, userCan(first, "create", "deployments", ns, "")).Should(BeFalse())
		Eventually(ctx, userCan(first, "get", "tenants", "", t.Name)).Should(BeFalse())
		By("not recording a change of the spec as a repair")
		Expect(eventsAbout(t)(ctx)).NotTo(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventAdminBindingRepaired}))
	})

	It("never reach the namespace itself, by any path", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("path"), suffixes("dev"),
			admins(v1beta1.Subject{Kind: v1beta1.SubjectGroup, Name: "team"})))
		name := t.Name + "-dev"
		Eventually(ctx, can("ann", []string{"team"}, "get", "namespaces", "", name, name)).Should(BeTrue())
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			for _, sub := range []string{"", "status", "finalize"} {
				Expect(can("ann", []string{"team"}, verb, "namespaces", sub, name, name)(ctx)).To(BeFalse(),
					"%s namespaces/%s", verb, sub)
			}
			for _, sub := range []string{"", "status", "finalizers"} {
				Expect(can("ann", []string{"team"}, verb, "tenants", sub, "", t.Name)(ctx)).To(BeFalse(), "%s tenants/%s", verb, sub)
			}
		}
	})
})

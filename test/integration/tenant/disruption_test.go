package tenant_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// These specs take away something that the others rely on, and put it back.
// Serial specs run on the first process, which is the one that has the operator.
var _ = Describe("When something is taken away", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(settled)

	It("a killed leader's work is taken up by the standby, and nothing is done twice", func(ctx SpecContext) {
		By("having a Tenant in conflict, which the new leader must leave as it is")
		clash := unique("clash")
		victim := stranger(ctx, clash+"-dev")
		inConflict := given(ctx, build(clash, suffixes("dev")))
		Eventually(ctx, eventsAbout(inConflict)).WithTimeout(expect.Medium).Should(HaveLen(2))

		leader := suite.Leader(ctx)
		t := given(ctx, build(unique("fail"), suffixes("a", "b", "c", "d", "e", "f", "g", "h")))
		By("killing the leader when the first namespace is there and the last may not be")
		Eventually(ctx, reading(namespaceOf(t.Name+"-a"))).WithPolling(expect.Poll / 10).Should(Succeed())
		leader.Kill()
		DeferCleanup(suite.StartReplicas)

		eventuallyReady(ctx, t)
		Expect(suite.Leader(ctx).Name()).NotTo(Equal(leader.Name()))
		Expect(t.Status.Namespaces).To(HaveLen(8))
		for _, suffix := range t.Spec.Namespaces {
			Expect(fetched(namespaceOf(t.Name + "-" + string(suffix)))(ctx)).To(expect.BeControlledBy(t))
			Expect(fetched(bindingIn(t.Name + "-" + string(suffix)))(ctx)).To(expect.BeControlledBy(t))
		}
		Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventUpdated, Times: 1}))
		Expect(fetched(inConflict)(ctx)).To(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict))
		Expect(eventsAbout(inConflict)(ctx)).To(And(
			HaveLen(2),
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventNamespaceConflict, Times: 1})))
		before := victim.ResourceVersion
		Expect(fetched(victim)(ctx)).To(HaveField("ResourceVersion", before))
		for _, suffix := range t.Spec.Namespaces {
			// The request under way at the kill may be recorded with an error though it
			// was carried out. But what exists and was never deleted was created once.
			created, deleted := suite.LifeOf("", "namespaces", t.Name+"-"+string(suffix))
			Expect(created).To(BeNumerically("<=", 1))
			Expect(deleted).To(BeZero())
		}
	})

	It("a Tenant with Retain keeps its namespaces when its CRD is deleted", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("crd"), suffixes("dev"), retain))
		ns := namespaceOf(t.Name + "-dev")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
		uid := ns.UID
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "tenants.leasehold.dev"}}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		again := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Labels: crd.Labels, Annotations: crd.Annotations}, Spec: crd.Spec}
		Expect(k8s.Delete(ctx, crd)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreAlreadyExists(k8s.Create(ctx, again))).To(Succeed())
			Eventually(ctx, func(ctx context.Context) error { return k8s.List(ctx, &v1beta1.TenantList{}) }).
				WithTimeout(expect.Medium).Should(Succeed())
			Expect(k8s.Delete(ctx, namespaceOf(ns.Name))).To(Succeed())
		})
		Eventually(ctx, reading(crd)).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(fetched(ns)(ctx)).To(And(
			HaveField("UID", uid), HaveField("DeletionTimestamp", BeNil()),
			HaveField("Annotations", Not(HaveKey(v1beta1.AnnotationTenantUID)))))
		Expect(reading(bindingIn(ns.Name))(ctx)).To(expect.BeGone())
	})

	It("a rule of the schema: what was stored meanwhile can still be changed when the rule is back",
		func(ctx SpecContext) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "tenants.leasehold.dev"}}
			adminRules := func(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.ValidationRules {
				return &c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["admins"].Items.Schema.XValidations
			}
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
			rules := *adminRules(crd)
			Expect(rules).NotTo(BeEmpty())
			restore := func(ctx context.Context) {
				change(ctx, crd, func(c *apiextensionsv1.CustomResourceDefinition) { *adminRules(c) = rules })
				Eventually(ctx, func(ctx context.Context) error {
					return k8s.Create(ctx, build(unique("strict"),
						admins(v1beta1.Subject{Kind: v1beta1.SubjectGroup, Name: "system:new"})), client.DryRunAll)
				}).Should(MatchError(ContainSubstring("must not start with 'system:'")))
			}
			change(ctx, crd, func(c *apiextensionsv1.CustomResourceDefinition) { *adminRules(c) = nil })
			DeferCleanup(restore)
			old := build(unique("old"), suffixes("dev"), admins(v1beta1.Subject{Kind: v1beta1.SubjectGroup, Name: "system:old"}))
			Eventually(ctx, func(ctx context.Context) error { return k8s.Create(ctx, old) }).Should(Succeed())
			DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, old))).To(Succeed()) })
			eventuallyReady(ctx, old)
			restore(ctx)

			change(ctx, old, func(t *v1beta1.Tenant) { t.Labels = map[string]string{"example.com/team": "x"} })
			change(ctx, old, suffixes("dev", "test"))
			eventuallyReady(ctx, old)
			Expect(old.Status.Namespaces).To(HaveLen(2), "the operator must be able to work on it too")
		})

	It("the admins' role: it is missed, and found again", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("role"), suffixes("dev")))
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		again := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name, Labels: role.Labels, Annotations: role.Annotations},
			Rules:      role.Rules, AggregationRule: role.AggregationRule}
		Expect(k8s.Delete(ctx, role)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreAlreadyExists(k8s.Create(ctx, again.DeepCopy()))).To(Succeed())
		})
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonAdminRoleNotFound),
			expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonAdminRoleNotFound)))
		Expect(k8s.Create(ctx, again.DeepCopy())).To(Succeed())
		eventuallyReady(ctx, t)
	})

	It("the right to bind: the Tenant says so, keeps its namespaces, and recovers", func(ctx SpecContext) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leasehold-manager-role"}}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		rules := role.Rules
		change(ctx, role, func(r *rbacv1.ClusterRole) {
			r.Rules = nil
			for _, rule := range rules {
				if len(rule.ResourceNames) == 0 || rule.Verbs[0] != "bind" {
					r.Rules = append(r.Rules, rule)
				}
			}
			Expect(r.Rules).To(HaveLen(len(rules) - 1))
		})
		DeferCleanup(func(ctx context.Context) {
			change(ctx, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
		})
		t := given(ctx, build(unique("bind"), suffixes("dev")))
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonRBACForbidden),
			HaveField("Status.Namespaces", ContainElement(HaveField("Reason", v1beta1.ReasonRBACForbidden)))))
		Expect(fetched(namespaceOf(t.Name + "-dev"))(ctx)).To(expect.BeControlledBy(t))
		Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventFailed, Note: "^failed to reconcile: .*forbidden",
				Times: 1}))

		change(ctx, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
		eventuallyReady(ctx, t)
	})

	It("the right to bind a role that the flag names: the admins keep the rights they have", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("flag"), suffixes("dev")))
		alice, namespace := "admin-of-"+t.Name, t.Name+"-dev"
		Eventually(ctx, userCan(alice, "create", "deployments", namespace, "")).Should(BeTrue())
		binding := bindingIn(namespace)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		uid := binding.UID

		suite.RestartReplicas(ctx, "--tenant-admin-cluster-role=view")
		DeferCleanup(func(ctx context.Context) {
			suite.StopReplicas(ctx)
			suite.StartReplicas(ctx)
		})
		Eventually(ctx, fetched(t)).WithTimeout(expect.Long).Should(And(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonRBACForbidden),
			expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonRBACForbidden),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", And(
				ContainSubstring("lacks the right bind on ClusterRole view"), ContainSubstring("--tenant-admin-cluster-role")))))))
		Expect(fetched(binding)(ctx)).To(And(HaveField("UID", uid), HaveField("RoleRef.Name", "admin")))
		Expect(userCan(alice, "create", "deployments", namespace, "")(ctx)).To(BeTrue())

		By("replacing the binding once that is allowed")
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leasehold-manager-role"}}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		rules := role.Rules
		change(ctx, role, func(r *rbacv1.ClusterRole) {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{
				APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"view"},
				Verbs: []string{"bind"}})
		})
		DeferCleanup(func(ctx context.Context) { change(ctx, role, func(r *rbacv1.ClusterRole) { r.Rules = rules }) })
		Eventually(ctx, fetched(binding)).WithTimeout(expect.Medium).Should(HaveField("RoleRef.Name", "view"))
		Eventually(ctx, userCan(alice, "create", "deployments", namespace, "")).Should(BeFalse())
		Eventually(ctx, userCan(alice, "get", "deployments", namespace, "")).Should(BeTrue())
	})

	It("the whole operator: what is wrong in itself is still refused, and what is there can be deleted",
		func(ctx SpecContext) {
			held := givenReady(ctx, build(unique("down"), suffixes("dev")))
			suite.StopReplicas(ctx)
			DeferCleanup(suite.StartReplicas)

			wrong := held.DeepCopy()
			wrong.Spec.Admins[0].Name = "system:admin"
			Expect(k8s.Update(ctx, wrong)).To(MatchError(ContainSubstring("must not start with 'system:'")),
				"the schema's own rules need no operator")
			err := k8s.Create(ctx, build(unique("down")))
			Expect(err).To(MatchError(ContainSubstring("failed calling webhook")), "nothing unchecked may come in")

			Expect(k8s.Delete(ctx, held)).To(Succeed(), "a dead operator must not keep anything from being deleted")
			Expect(fetched(held)(ctx)).To(expect.BeTerminating())
			suite.StartReplicas(ctx)
			Eventually(ctx, reading(held)).WithTimeout(expect.Long).Should(expect.BeGone())
		})
})

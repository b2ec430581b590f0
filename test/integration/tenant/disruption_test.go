// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// These specs remove something that other specs need, and restore it. Serial specs run on the first
// process, which runs the operator.
var _ = Describe("When a part is missing", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(suite.NeedsControllers)

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
		})
		suite.DeleteNamespaceAfter(ns.Name)
		Eventually(ctx, reading(crd)).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(fetched(ns)(ctx)).To(And(
			HaveField("UID", uid), HaveField("DeletionTimestamp", BeNil()),
			HaveField("Annotations", Not(HaveKey(v1beta1.AnnotationTenantUID)))))
		Expect(reading(bindingIn(ns.Name))(ctx)).To(expect.BeGone())
	})

	It("the permission to bind the flag's role: the admins keep their current rights", func(ctx SpecContext) {
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
				ContainSubstring("lacks the verb bind on ClusterRole view"), ContainSubstring("--tenant-admin-cluster-role")))))))
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

	It("the operator: no unvalidated Tenant is stored, and an administrator removes Tenants deleted in each way",
		func(ctx SpecContext) {
			kept := givenReady(ctx, build(unique("kept")))
			deleted := map[metav1.DeletionPropagation]*v1beta1.Tenant{}
			for _, policy := range []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
				deleted[policy] = givenReady(ctx, build(unique("gone"), suffixes("dev")))
				suite.DeleteNamespaceAfter(deleted[policy].Name + "-dev")
			}
			DeferCleanup(suite.StartReplicas)
			suite.StopReplicas(ctx)
			Expect(k8s.Create(ctx, build(unique("down")))).To(MatchError(ContainSubstring("failed calling webhook")))
			kept.Labels = map[string]string{"example.com/a": "b"}
			Expect(k8s.Update(ctx, kept)).To(MatchError(ContainSubstring("failed calling webhook")))
			for policy, t := range deleted {
				Expect(k8s.Delete(ctx, t, client.PropagationPolicy(policy))).To(Succeed())
				Eventually(func(g Gomega) {
					g.Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(t), t))).To(Succeed())
					controllerutil.RemoveFinalizer(t, v1beta1.TenantFinalizer)
					g.Expect(client.IgnoreNotFound(k8s.Update(ctx, t))).To(Succeed())
				}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
				Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone(), "%s", policy)
			}
		})
})

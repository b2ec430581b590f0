// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// haveFailed matches a Tenant that reports a reason and a text, and that can recover without a change.
func haveFailed(reason, text string) OmegaMatcher {
	return And(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, reason),
		HaveField("Status.Conditions", ContainElement(HaveField("Message", ContainSubstring(text)))),
		HaveField("Status.Conditions", Not(ContainElement(HaveField("Type", v1beta1.ConditionStalled)))))
}

var _ = Describe("A Tenant reports the cause of a refused write", func() {
	It("of an admission policy, by its name", func(ctx SpecContext) {
		name := unique("denied")
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name + ".example.com"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						ResourceNames: []string{name + "-dev"},
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
							Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"namespaces"}}},
					}}},
				Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no such namespace",
					Reason: new(metav1.StatusReasonForbidden)}},
			},
		}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        policy.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		}
		for _, o := range []client.Object{policy, binding} {
			Expect(k8s.Create(ctx, o)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, o))).To(Succeed()) })
		}
		Eventually(func(g Gomega) {
			err := k8s.Create(ctx, namespaceOf(name+"-dev"), client.DryRunAll)
			g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "the policy is in force: %v", err)
		}).WithTimeout(expect.Medium).Should(Succeed())

		t := given(ctx, build(name))
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			haveFailed(v1beta1.ReasonAdmissionDenied, "'"+policy.Name+"'"),
			HaveField("Status.Namespaces", ContainElement(HaveField("Reason", v1beta1.ReasonReconciled)))))
		Expect(k8s.Delete(ctx, binding)).To(Succeed())
		eventuallyReady(ctx, t)
	})

	// Such a policy denies a request if its expression fails.
	It("of a mutating admission policy, by its name", func(ctx SpecContext) {
		name := unique("billed")
		kind := schema.GroupKind{Group: admissionregistrationv1.GroupName, Kind: "MutatingAdmissionPolicy"}
		served, err := k8s.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			Skip("the API server has no MutatingAdmissionPolicy")
		}
		Expect(err).NotTo(HaveOccurred())
		policy := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name + ".example.com"},
			"spec": map[string]any{
				"failurePolicy": "Fail", "reinvocationPolicy": "Never",
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"resourceNames": []any{name + "-dev"},
					"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"namespaces"}}}},
				"mutations": []any{map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{
					"expression": `Object{metadata: Object.metadata{labels: {"cost": object.metadata.annotations["example.com/cost"]}}}`}}},
			}}}
		binding := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": policy.GetName()}, "spec": map[string]any{"policyName": policy.GetName()}}}
		policy.SetGroupVersionKind(served.GroupVersionKind)
		binding.SetGroupVersionKind(served.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "Binding"))
		for _, o := range []client.Object{policy, binding} {
			Expect(k8s.Create(ctx, o)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, o))).To(Succeed()) })
		}
		Eventually(func() error {
			return k8s.Create(ctx, namespaceOf(name+"-dev"), client.DryRunAll)
		}).WithTimeout(expect.Medium).Should(MatchError(ContainSubstring("denied request")), "the policy is in force")

		t := given(ctx, build(name, suffixes("dev")))
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(
			haveFailed(v1beta1.ReasonAdmissionDenied, "'"+policy.GetName()+"'"))
		Expect(k8s.Delete(ctx, binding)).To(Succeed())
		eventuallyReady(ctx, t)
	})

	It("of a quota, by its name", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("quota"), suffixes("dev")))
		namespace := t.Name + "-dev"
		const bindings = "count/rolebindings.rbac.authorization.k8s.io"
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "no-bindings"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{bindings: resource.MustParse("0")}},
		}
		Expect(k8s.Create(ctx, quota)).To(Succeed())
		By("setting the usage, because the control plane of the tests has no quota controller")
		before := quota.DeepCopy()
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard,
			Used: corev1.ResourceList{bindings: resource.MustParse("0")}}
		Expect(k8s.Status().Patch(ctx, quota, client.MergeFrom(before))).To(Succeed())
		Eventually(func(g Gomega) {
			other := bindingIn(namespace)
			other.Name, other.RoleRef.Kind, other.RoleRef.Name = "other", "ClusterRole", "view"
			err := k8s.Create(ctx, other, client.DryRunAll)
			g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "the quota is in force: %v", err)
		}).WithTimeout(expect.Medium).Should(Succeed())
		Expect(k8s.Delete(ctx, bindingIn(namespace))).To(Succeed())
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(haveFailed(v1beta1.ReasonQuotaExceeded, quota.Name))
		Expect(k8s.Delete(ctx, quota)).To(Succeed())
		eventuallyReady(ctx, t)
	})
})

// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

const adminBinding = "leasehold:tenant-admin"

func unique(base string) string { return operator.Unique(base) }

// build returns a Tenant with one user as admin, without defaults.
func build(name string, with ...func(*v1beta1.Tenant)) *v1beta1.Tenant {
	t := &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.TenantSpec{
			Namespaces: []v1beta1.NamespaceSuffix{"dev", "prod"},
			Admins:     []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "admin-of-" + name}},
		},
	}
	for _, f := range with {
		f(t)
	}
	return t
}

func suffixes(s ...v1beta1.NamespaceSuffix) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.Namespaces = s }
}

func withPrefix(p string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.NamespacePrefix = p }
}

func retain(t *v1beta1.Tenant) { t.Spec.NamespaceDeletionPolicy = v1beta1.NamespaceRetain }

func admins(s ...v1beta1.Subject) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.Admins = s }
}

// given creates a Tenant, and deletes it after the spec without waiting. Its namespaces are deleted with it if the
// cluster outlives the suite.
func given(ctx context.Context, t *v1beta1.Tenant) *v1beta1.Tenant {
	GinkgoHelper()
	Expect(k8s.Create(ctx, t)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		policy := v1beta1.NamespaceRetain
		if suite.Outlives() {
			policy = v1beta1.NamespaceDelete
		}
		change := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"namespaceDeletionPolicy":%q}}`, policy))
		Expect(client.IgnoreNotFound(k8s.Patch(ctx, t.DeepCopy(), change))).To(Succeed())
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, t))).To(Succeed())
	})
	return t
}

// givenReady is given, and waits for the Tenant to be Ready.
func givenReady(ctx context.Context, t *v1beta1.Tenant) *v1beta1.Tenant {
	GinkgoHelper()
	given(ctx, t)
	eventuallyReady(ctx, t)
	return t
}

// eventuallyReady waits until the Tenant is Ready for its current generation.
func eventuallyReady(ctx context.Context, t *v1beta1.Tenant) {
	GinkgoHelper()
	Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
		expect.HaveObservedGeneration(),
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled)))
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

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// stranger creates a namespace that belongs to no Tenant.
func stranger(ctx context.Context, name string) *corev1.Namespace {
	GinkgoHelper()
	ns := namespaceOf(name)
	Expect(k8s.Create(ctx, ns)).To(Succeed())
	suite.DeleteNamespaceAfter(name)
	return ns
}

func bindingIn(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: adminBinding}}
}

// can queries the API server's authorizer.
func can(user string, groups []string, verb, resource, subresource, namespace,
	name string) func(context.Context) (bool, error) {
	group := ""
	switch resource {
	case "tenants":
		group = v1beta1.GroupVersion.Group
	case "deployments":
		group = "apps"
	}
	return operator.Can(k8s, user, groups, authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name})
}

// userCan is can for a user without groups.
func userCan(user, verb, resource, namespace, name string) func(context.Context) (bool, error) {
	return can(user, nil, verb, resource, "", namespace, name)
}

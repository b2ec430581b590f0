// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

func users(names ...string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		t.Spec.Admins = nil
		for _, name := range names {
			t.Spec.Admins = append(t.Spec.Admins, v1beta1.Subject{Kind: v1beta1.SubjectUser, Name: name})
		}
	}
}

// as returns a client that impersonates a user.
func as(user string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(suite.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// forge changes the binding as the user who has admin rights through it.
func forge(ctx context.Context, user, namespace string, f func(*rbacv1.RoleBinding)) {
	GinkgoHelper()
	c := as(user)
	Eventually(func(g Gomega) {
		binding := bindingIn(namespace)
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		f(binding)
		g.Expect(c.Update(ctx, binding)).To(Succeed())
	}).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed())
}

// forgedMark sets the ownership labels of a Tenant that does not exist.
func forgedMark(b *rbacv1.RoleBinding) {
	b.Annotations, b.OwnerReferences = map[string]string{v1beta1.AnnotationTenantUID: "x"}, nil
}

var _ = Describe("An admin who is removed", func() {
	BeforeEach(suite.NeedsControllers)

	DescribeTable("loses access despite forged ownership of the binding, while the Tenant exists",
		func(ctx SpecContext, forged func(ctx context.Context, mallory, namespace string) func(*rbacv1.RoleBinding)) {
			mallory, alice := unique("mallory"), unique("alice")
			t := givenReady(ctx, build(unique("forge"), suffixes("dev"), users(mallory, alice)))
			namespace := t.Name + "-dev"
			Eventually(ctx, userCan(mallory, "create", "deployments", namespace, "")).Should(BeTrue())
			forge(ctx, mallory, namespace, forged(ctx, mallory, namespace))

			change(ctx, t, users(alice))
			Eventually(ctx, userCan(mallory, "create", "deployments", namespace, "")).WithTimeout(expect.Medium).
				Should(BeFalse())
			eventuallyReady(ctx, t)
			Expect(userCan(alice, "create", "deployments", namespace, "")(ctx)).To(BeTrue())
		},
		Entry("as a Tenant's that does not exist",
			func(context.Context, string, string) func(*rbacv1.RoleBinding) { return forgedMark }),
		Entry("as an object's of their own", func(ctx context.Context, mallory, namespace string) func(*rbacv1.RoleBinding) {
			owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
			Expect(as(mallory).Create(ctx, owner)).To(Succeed())
			return func(b *rbacv1.RoleBinding) {
				b.Annotations = nil
				b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner,
					corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			}
		}),
	)

	It("loses access despite a forged or finalized binding, under Retain", func(ctx SpecContext) {
		mallory := unique("mallory")
		t := givenReady(ctx, build(unique("forge"), retain, users(mallory)))
		prod := t.Name + "-prod"
		suite.DeleteNamespaceAfter(t.Name + "-dev")
		suite.DeleteNamespaceAfter(prod)
		Eventually(ctx, userCan(mallory, "create", "deployments", prod, "")).Should(BeTrue())
		forge(ctx, mallory, prod, func(b *rbacv1.RoleBinding) {
			forgedMark(b)
			b.Finalizers = []string{"example.com/hold"}
		})

		change(ctx, t, suffixes("dev"))
		Eventually(ctx, eventsAbout(t)).WithTimeout(expect.Medium).Should(
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceRetained, Note: prod}))
		Expect(reading(bindingIn(prod))(ctx)).To(expect.BeGone(), "the event reports that the namespace was released")
		Eventually(ctx, userCan(mallory, "create", "deployments", prod, "")).Should(BeFalse())

		By("losing them in the other namespace with the Tenant")
		forge(ctx, mallory, t.Name+"-dev", forgedMark)
		Expect(k8s.Delete(ctx, t)).To(Succeed())
		Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
		Eventually(ctx, userCan(mallory, "create", "deployments", t.Name+"-dev", "")).Should(BeFalse())
	})
})

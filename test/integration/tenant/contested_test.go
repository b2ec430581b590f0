// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// withinBound is the time after which a removed admin has no access, whatever other clients write. They write all the
// time, so it need not be short.
const withinBound = expect.Medium

// privileged returns a client without a limit of its own. The attacker of these specs is a client that no
// admission policy restricts.
func privileged() client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(suite.Config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// contest adds and removes a finalizer of the binding until the end of the spec. It returns once the API
// server has accepted some of the writes.
func contest(ctx SpecContext, binding *rbacv1.RoleBinding) {
	GinkgoHelper()
	c := privileged()
	ended, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sent, written atomic.Int64
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for ended.Err() == nil {
				n, finalizers := sent.Add(1), "null"
				if n%2 == 0 {
					finalizers = `["example.com/hold"]`
				}
				// The API server ignores writes without a change, so each has a number.
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
					`{"metadata":{"annotations":{"example.com/write":"%d"},"finalizers":%s}}`, n, finalizers))
				switch err := c.Patch(ended, binding.DeepCopy(), patch); {
				case err == nil:
					written.Add(1)
				case apierrors.IsNotFound(err): // nothing to contest until the operator makes it again
					select {
					case <-ended.Done():
					case <-time.After(10 * time.Millisecond):
					}
				}
			}
		})
	}
	DeferCleanup(func() {
		stop()
		writers.Wait()
	})
	Eventually(written.Load).WithContext(ctx).WithTimeout(expect.Medium).Should(BeNumerically(">=", 20))
}

// filled brings the binding close to etcd's size limit, so that no managed fields can be added, and
// adds a finalizer.
func filled(ctx SpecContext, binding *rbacv1.RoleBinding) {
	GinkgoHelper()
	c := privileged()
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		binding.Finalizers, binding.ManagedFields = []string{"example.com/hold"}, []metav1.ManagedFieldsEntry{{}}
		for i := range 3200 {
			key := fmt.Sprintf("%s.%04d/%s", strings.Repeat(strings.Repeat("x", 61)+".", 3)+strings.Repeat("y", 60), i,
				strings.Repeat("z", 63))
			binding.Labels[key] = strings.Repeat("v", 63)
		}
		g.Expect(c.Update(ctx, binding)).To(Succeed())
	}).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed())
}

// Serial: the bound is a time, and other specs would slow down the operator.
var _ = Describe("A removed admin whose binding is contested", Serial, func() {
	BeforeEach(suite.NeedsControllers)

	DescribeTable("loses access in bounded time, and the other admins get theirs",
		func(ctx SpecContext, attack func(SpecContext, *rbacv1.RoleBinding)) {
			mallory, alice, bob := unique("mallory"), unique("alice"), unique("bob")
			t := givenReady(ctx, build(unique("contested"), suffixes("dev"), users(mallory, alice)))
			namespace := t.Name + "-dev"
			Eventually(ctx, userCan(mallory, "create", "deployments", namespace, "")).Should(BeTrue())
			attack(ctx, bindingIn(namespace))

			change(ctx, t, users(alice, bob))
			Eventually(ctx, userCan(mallory, "create", "deployments", namespace, "")).WithTimeout(withinBound).
				Should(BeFalse())
			for _, admin := range []string{alice, bob} {
				Eventually(ctx, userCan(admin, "create", "deployments", namespace, "")).WithTimeout(withinBound).
					Should(BeTrue())
			}
			eventuallyReady(ctx, t)
		},
		Entry("by changed finalizers", contest),
		Entry("by labels up to etcd's limit, and a finalizer", filled),
		Entry("by another role, which the operator may not bind", func(ctx SpecContext, b *rbacv1.RoleBinding) {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(b), b)).To(Succeed())
			other := bindingIn(b.Namespace)
			other.Subjects, other.RoleRef = b.Subjects, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
				Name: "cluster-admin"}
			Eventually(func(g Gomega) { // the operator concurrently restores its own
				g.Expect(client.IgnoreNotFound(k8s.Delete(ctx, bindingIn(b.Namespace)))).To(Succeed())
				g.Expect(k8s.Create(ctx, other.DeepCopy())).To(Succeed())
			}).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed())
			contest(ctx, b)
		}),
	)

	DescribeTable("loses access while the Tenant is deleted",
		func(ctx SpecContext, policy func(*v1beta1.Tenant)) {
			mallory := unique("mallory")
			t := givenReady(ctx, build(unique("contested"), policy, suffixes("dev"), users(mallory)))
			namespace := t.Name + "-dev"
			suite.DeleteNamespaceAfter(namespace)
			Eventually(ctx, userCan(mallory, "create", "deployments", namespace, "")).Should(BeTrue())
			contest(ctx, bindingIn(namespace))

			Expect(k8s.Delete(ctx, t)).To(Succeed())
			Eventually(ctx, userCan(mallory, "create", "deployments", namespace, "")).WithTimeout(withinBound).
				Should(BeFalse())
			Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
		},
		Entry("under Retain", retain),
		Entry("under Delete", func(*v1beta1.Tenant) {}),
	)
})

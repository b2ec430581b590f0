// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// newTenant returns a Tenant with one admin. The run keeps the logs of Pods in namespaces that
// begin with "e2e-".
func newTenant(name string, namespaces ...v1beta1.NamespaceSuffix) *v1beta1.Tenant {
	return &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.TenantSpec{
			Namespaces: namespaces,
			Admins:     []v1beta1.Subject{{Kind: rbacv1.UserKind, Name: name + "-admin"}},
		},
	}
}

// isReady returns a function that reads an object of ours. Its error is nil when the condition
// Ready is True for the current generation.
func isReady(o client.Object, conditions func() []metav1.Condition) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := shared.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(conditions(), v1beta1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != o.GetGeneration() {
			return fmt.Errorf("%s is not Ready: %+v", o.GetName(), ready)
		}
		return nil
	}
}

func tenantReady(t *v1beta1.Tenant) func(context.Context) error {
	return isReady(t, func() []metav1.Condition { return t.Status.Conditions })
}

// gone returns a function that fails while an object of this name exists.
func gone(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := shared.client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s is still there", o.GetName())
		}
		return err
	}
}

// remove deletes objects and waits until they do not exist.
func remove(ctx context.Context, g *WithT, objects ...client.Object) {
	for _, o := range objects {
		g.Expect(client.IgnoreNotFound(shared.client.Delete(ctx, o))).To(Succeed())
	}
	for _, o := range objects {
		g.Eventually(gone(o)).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
	}
}

func TestTenant(t *testing.T) {
	tenant := newTenant(unique("one"), "dev")
	afterwards(t, func(ctx context.Context, g *WithT) { remove(ctx, g, tenant) })
	testenv.Test(t, features.New("A Tenant").
		Assess("gets namespaces in which Pods run, under the pod-security level", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.client.Create(ctx, tenant)).To(Succeed())
			await(ctx, g, tenantReady(tenant), Succeed())
			namespace, admin := tenant.Name+"-dev", as(g, tenant.Name+"-admin")
			// Pods need the ServiceAccount that kube-controller-manager creates.
			await(ctx, g, func() error { return admin.Create(ctx, newPod(namespace, "worker")) }, Succeed())
			await(ctx, g, expect.Fetched(shared.client, newPod(namespace, "worker")),
				HaveField("Status.Phase", corev1.PodRunning))

			privileged := newPod(namespace, "privileged")
			privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
			g.Expect(admin.Create(ctx, privileged)).To(MatchError(ContainSubstring(`violates PodSecurity "baseline`)))
		})).
		Feature())
}

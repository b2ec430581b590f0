package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// newTenant is a Tenant with one admin. Names begin with "e2e-": the logs of the
// Pods in such namespaces are kept.
func newTenant(name string, namespaces ...v1beta1.NamespaceSuffix) *v1beta1.Tenant {
	return &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.TenantSpec{
			Namespaces: namespaces,
			Admins:     []v1beta1.Subject{{Kind: rbacv1.UserKind, Name: name + "-admin"}},
		},
	}
}

// isReady reads an object of ours anew; the result is nil when its condition
// Ready is True for the spec it has now.
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

// gone reads an object anew; the result is nil when there is none of its name.
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

// remove deletes objects, and waits until they are gone.
func remove(ctx context.Context, g *WithT, objects ...client.Object) {
	for _, o := range objects {
		g.Expect(client.IgnoreNotFound(shared.client.Delete(ctx, o))).To(Succeed())
	}
	for _, o := range objects {
		g.Eventually(gone(o)).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
	}
}

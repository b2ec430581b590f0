package scale

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// newTenant is what each member of a fleet is: three namespaces and one admin. All
// names of a fleet are of one length.
func newTenant(name string) *v1beta1.Tenant {
	return &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.TenantSpec{
			Namespaces: []v1beta1.NamespaceSuffix{"dev", "test", "prod"},
			Admins:     []v1beta1.Subject{{Kind: "Group", Name: name + "-team"}},
		},
	}
}

// member is the name of the i-th of a fleet.
func member(fleet string, i int) string { return fmt.Sprintf("%s-%05d", fleet, i) }

// create makes a fleet and returns the UIDs of its members.
func (f *testbed) create(ctx context.Context, fleet string, n int) ([]types.UID, error) {
	uids := make([]types.UID, n)
	err := each(ctx, n, func(ctx context.Context, i int) error {
		t := newTenant(member(fleet, i))
		if err := f.Client.Create(ctx, t); err != nil {
			return fmt.Errorf("creating Tenant %s: %w", t.Name, err)
		}
		uids[i] = t.UID
		return nil
	})
	return uids, err
}

// drop deletes a fleet that is not reconciled. What was made for its members stays.
func (f *testbed) drop(ctx context.Context, fleet string, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		t := newTenant(member(fleet, i))
		bare := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := f.Client.Patch(ctx, t, bare); err != nil {
			return fmt.Errorf("taking the finalizer off Tenant %s: %w", t.Name, err)
		}
		if err := f.Client.Delete(ctx, t); err != nil {
			return fmt.Errorf("deleting Tenant %s: %w", t.Name, err)
		}
		return nil
	})
}

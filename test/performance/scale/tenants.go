package scale

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// newTenant is the i-th Tenant of a fleet: three namespaces and one admin.
func newTenant(i int) *v1beta1.Tenant {
	name := fmt.Sprintf("fleet-%05d", i)
	return &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.TenantSpec{
			Namespaces: []v1beta1.NamespaceSuffix{"dev", "test", "prod"},
			Admins:     []v1beta1.Subject{{Kind: "Group", Name: name + "-team"}},
		},
	}
}

// create makes a fleet.
func (f *testbed) create(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error {
			t := newTenant(i)
			if err := f.Client.Create(ctx, t); err != nil {
				return fmt.Errorf("creating Tenant %s: %w", t.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

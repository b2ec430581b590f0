package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// Field indexes of the cache.
const (
	// indexClaims: namespaces and role bindings by the Tenant UIDs they claim.
	indexClaims = "leasehold.dev/claims"
	// indexHolds: Tenants by the full names of the namespaces they ask for or hold.
	indexHolds = "leasehold.dev/holds"
	// indexReady: Tenants by the status of their Ready condition.
	indexReady = "leasehold.dev/ready"
)

// addIndexes registers the indexes; it has to run before the cache starts.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	claimed := func(o client.Object) []string {
		var uids []string
		for _, uid := range claimedTenants(o) {
			uids = append(uids, string(uid))
		}
		return uids
	}
	for _, index := range []struct {
		object client.Object
		name   string
		keys   client.IndexerFunc
	}{
		{&corev1.Namespace{}, indexClaims, claimed},
		{&rbacv1.RoleBinding{}, indexClaims, claimed},
		{&v1beta1.Tenant{}, indexHolds, func(o client.Object) []string { return heldNames(o.(*v1beta1.Tenant)) }},
		{&v1beta1.Tenant{}, indexReady, func(o client.Object) []string { return []string{readyStatus(o.(*v1beta1.Tenant))} }},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return fmt.Errorf("adding field index %s: %w", index.name, err)
		}
	}
	return nil
}

// readyStatus is the status of the Ready condition, Unknown if there is none.
func readyStatus(t *v1beta1.Tenant) string {
	if c := meta.FindStatusCondition(t.Status.Conditions, v1beta1.ConditionReady); c != nil {
		return string(c.Status)
	}
	return "Unknown"
}

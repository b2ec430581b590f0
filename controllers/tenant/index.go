package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// Field indexes of the cache.
const (
	// indexClaims maps a Tenant UID to the namespaces that carry it.
	indexClaims = "leasehold.dev/claims"
	// indexNamespaces maps the full name of a namespace to the Tenants that name it in
	// their spec or status.
	indexNamespaces = "leasehold.dev/holds"
	// indexReady maps a status of the Ready condition to Tenants.
	indexReady = "leasehold.dev/ready"
)

// addIndexes registers the indexes. It must run before the cache starts.
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
		{&v1beta1.Tenant{}, indexNamespaces, func(o client.Object) []string { return usedNames(o.(*v1beta1.Tenant)) }},
		{&v1beta1.Tenant{}, indexReady, func(o client.Object) []string { return []string{readyStatus(o.(*v1beta1.Tenant))} }},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return fmt.Errorf("adding field index %s: %w", index.name, err)
		}
	}
	return nil
}

// readyStatus returns the status of the Ready condition, or Unknown if there is none.
func readyStatus(t *v1beta1.Tenant) string {
	if c := meta.FindStatusCondition(t.Status.Conditions, v1beta1.ConditionReady); c != nil {
		return string(c.Status)
	}
	return "Unknown"
}

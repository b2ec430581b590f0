package tenant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1beta1"
)

// The finalizer for orphans counts only during a deletion: a user can write it at any time, and
// would override the spec for each name that leaves it.
func TestRemovalPolicy(t *testing.T) {
	policy := func(p v1beta1.NamespaceDeletionPolicy) func(*v1beta1.Tenant) {
		return func(t *v1beta1.Tenant) { t.Spec.NamespaceDeletionPolicy = p }
	}
	retains := policy(v1beta1.NamespaceRetain)
	a := tenant("a")
	owned, bare := namespace("a-dev", ownedBy(a)), namespace("a-dev", ownedBy(a))
	bare.OwnerReferences = nil
	for name, tc := range map[string]struct {
		with []func(*v1beta1.Tenant)
		live *corev1.Namespace
		want v1beta1.NamespaceDeletionPolicy
	}{
		"Delete":                          {nil, owned, v1beta1.NamespaceDelete},
		"no policy":                       {[]func(*v1beta1.Tenant){policy("")}, owned, v1beta1.NamespaceDelete},
		"Retain":                          {[]func(*v1beta1.Tenant){retains}, owned, v1beta1.NamespaceRetain},
		"orphaning, not deleted":          {[]func(*v1beta1.Tenant){orphaning}, owned, v1beta1.NamespaceDelete},
		"deleted":                         {[]func(*v1beta1.Tenant){deleted}, owned, v1beta1.NamespaceDelete},
		"deleted, orphaning":              {[]func(*v1beta1.Tenant){deleted, orphaning}, owned, v1beta1.NamespaceRetain},
		"deleted, without an owner":       {[]func(*v1beta1.Tenant){deleted}, bare, v1beta1.NamespaceRetain},
		"deleted, without a namespace":    {[]func(*v1beta1.Tenant){deleted}, nil, v1beta1.NamespaceDelete},
		"without an owner, not deleted":   {nil, bare, v1beta1.NamespaceDelete},
		"Retain, deleted, with its owner": {[]func(*v1beta1.Tenant){retains, deleted}, owned, v1beta1.NamespaceRetain},
	} {
		if got := removalPolicy(tenant("a", tc.with...), tc.live); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

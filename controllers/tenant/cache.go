package tenant

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/slimcache"
)

// CacheByObject returns cache options that store rules and subjects only for the role and
// binding names reserved for Tenants. Of other roles and bindings they store metadata.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&rbacv1.RoleBinding{}:        {Transform: slimRoleBinding},
		&rbacv1.ClusterRole{}:        {Transform: slimClusterRole},
		&rbacv1.ClusterRoleBinding{}: {Transform: slimClusterRoleBinding},
	}
}

func slimRoleBinding(in any) (any, error) {
	if b, ok := in.(*rbacv1.RoleBinding); ok && b.Name != adminBindingName {
		b.Subjects, b.RoleRef = nil, rbacv1.RoleRef{}
		b.Finalizers, b.OwnerReferences = slimcache.Finalizers(b), slimcache.Owners(b)
	}
	return slimcache.Trim(in)
}

func slimClusterRole(in any) (any, error) {
	if role, ok := in.(*rbacv1.ClusterRole); ok && !strings.HasPrefix(role.Name, readerNamePrefix) {
		role.Rules, role.AggregationRule = nil, nil
		role.Finalizers, role.OwnerReferences = slimcache.Finalizers(role), slimcache.Owners(role)
	}
	return slimcache.Trim(in)
}

func slimClusterRoleBinding(in any) (any, error) {
	if b, ok := in.(*rbacv1.ClusterRoleBinding); ok && !strings.HasPrefix(b.Name, readerNamePrefix) {
		b.Subjects, b.RoleRef = nil, rbacv1.RoleRef{}
		b.Finalizers, b.OwnerReferences = slimcache.Finalizers(b), slimcache.Owners(b)
	}
	return slimcache.Trim(in)
}

package tenant

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/slimcache"
)

// maxSubjectName exceeds, in bytes, the 253 characters of an admin's name.
const maxSubjectName = 1024

// CacheByObject returns cache options that select the RoleBindings of the reserved name, and store
// rules and subjects only for the cluster roles and bindings of reserved names.
//
// Users who may write RoleBindings in any namespace can create one of the reserved name there. So of
// each the cache stores at most what a Tenant's own can have.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&rbacv1.RoleBinding{}: {Transform: slimRoleBinding,
			Field: fields.OneTermEqualSelector("metadata.name", adminBindingName)},
		&rbacv1.ClusterRole{}:        {Transform: slimClusterRole},
		&rbacv1.ClusterRoleBinding{}: {Transform: slimClusterRoleBinding},
	}
}

func slimRoleBinding(in any) (any, error) {
	if b, ok := in.(*rbacv1.RoleBinding); ok {
		// One subject more than a Tenant can have suffices to differ from all Tenants. A copy
		// releases the array of the others.
		b.Subjects = slices.Clone(b.Subjects[:min(len(b.Subjects), v1beta1.MaxAdmins+1)])
		for i := range b.Subjects {
			s := &b.Subjects[i]
			*s = rbacv1.Subject{Kind: slimcache.Truncate(s.Kind), APIGroup: slimcache.Truncate(s.APIGroup),
				Name: slimcache.TruncateTo(s.Name, maxSubjectName), Namespace: slimcache.Truncate(s.Namespace)}
		}
		b.RoleRef = rbacv1.RoleRef{APIGroup: slimcache.Truncate(b.RoleRef.APIGroup),
			Kind: slimcache.Truncate(b.RoleRef.Kind), Name: slimcache.Truncate(b.RoleRef.Name)}
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

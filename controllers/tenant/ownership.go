package tenant

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

// claims is what an object says, and what we remember, about whose it is.
type claims struct {
	// markUID is the Tenant UID in the object's annotation, "" if it has none.
	markUID types.UID
	// controllerUID is the UID of the object's controlling owner, "" if it has none.
	controllerUID types.UID
	// objectUID is the UID of the object itself.
	objectUID types.UID
	// listed: the object's name is in the Tenant's spec or status.
	listed bool
	// recordedUID is the UID that the Tenant's status holds for the name, "" if none.
	recordedUID types.UID
}

// owns decides whether the object is the Tenant's. It is by UID only, and every
// combination that is not named is "no":
//
//   - the object carries the Tenant's UID as its mark and its name is listed; or
//   - the Tenant's status recorded this very object, which has lost its marks.
//
// A mark or a controller of another UID always means "no".
func owns(tenant types.UID, c claims) bool {
	if tenant == "" || c.objectUID == "" {
		return false
	}
	if c.markUID != "" && c.markUID != tenant {
		return false
	}
	if c.controllerUID != "" && c.controllerUID != tenant {
		return false
	}
	marked := c.markUID == tenant && c.listed
	recorded := c.recordedUID != "" && c.recordedUID == c.objectUID
	return marked || recorded
}

// claimsOf reads an object's claims. Listed and recorded are the caller's to set.
func claimsOf(o metav1.Object) claims {
	c := claims{objectUID: o.GetUID(), markUID: types.UID(o.GetAnnotations()[v1beta1.AnnotationTenantUID])}
	if ref := metav1.GetControllerOf(o); ref != nil {
		c.controllerUID = ref.UID
	}
	return c
}

// ownsNamespace decides whether the namespace is the Tenant's. A controller that was
// a Tenant of the same name is gone, as names are unique, and does not count: after
// a restore the mark alone hands a namespace over.
func ownsNamespace(t *v1beta1.Tenant, listed map[string]bool, ns metav1.Object) bool {
	c := claimsOf(ns)
	if !isControlledByOther(t, ns) {
		c.controllerUID = ""
	}
	c.listed = listed[ns.GetName()]
	for _, recorded := range t.Status.Namespaces {
		if recorded.Name == ns.GetName() {
			c.recordedUID = recorded.UID
		}
	}
	return owns(t.UID, c)
}

// ownsChild decides whether a child, whose name we chose, is the Tenant's: it
// must carry the mark or the owner reference, so that either heals the other.
func ownsChild(t *v1beta1.Tenant, child metav1.Object) bool {
	c := claimsOf(child)
	c.listed = true
	if c.controllerUID == t.UID {
		c.recordedUID = c.objectUID
	}
	return owns(t.UID, c)
}

// ownsReader decides whether a ClusterRole or ClusterRoleBinding under the name that
// is made of the Tenant's is its own. A restored one of a predecessor is: it grants
// the same rights, to the Tenant of that name.
func ownsReader(t *v1beta1.Tenant, child metav1.Object) bool {
	return ownsChild(t, child) || isOrphaned(t, child) && !isControlledByOther(t, child)
}

// ownsBinding decides whether the admins' RoleBinding in a namespace that is the
// Tenant's may be written or deleted. There the name is reserved: the role admin
// lets tenants edit RoleBindings, so neither a stripped nor a forged mark may keep
// rights alive. The one exception is a claim of a holder: another living Tenant
// that asks for or holds the namespace, as during a handover.
func ownsBinding(t *v1beta1.Tenant, binding metav1.Object, holders map[types.UID]bool) bool {
	return !slices.ContainsFunc(foreignClaims(t, binding), func(uid types.UID) bool { return holders[uid] })
}

// foreignClaims returns the UIDs, other than the Tenant's, that an object carries as
// its mark and its controller.
func foreignClaims(t *v1beta1.Tenant, o metav1.Object) []types.UID {
	c := claimsOf(o)
	return slices.DeleteFunc([]types.UID{c.markUID, c.controllerUID}, func(uid types.UID) bool {
		return uid == "" || uid == t.UID
	})
}

// isPredecessor reports whether an owner reference names a former Tenant of the
// Tenant's name. As names are unique, that one does not exist any more.
func isPredecessor(t *v1beta1.Tenant, ref metav1.OwnerReference) bool {
	isTenant := ref.APIVersion == tenantKind.GroupVersion().String() && ref.Kind == tenantKind.Kind
	return isTenant && ref.Name == t.Name && ref.UID != t.UID
}

// isControlledByOther reports whether an object has a controller that is neither the
// Tenant nor a predecessor.
func isControlledByOther(t *v1beta1.Tenant, o metav1.Object) bool {
	ref := metav1.GetControllerOf(o)
	return ref != nil && ref.UID != t.UID && !isPredecessor(t, *ref)
}

// isOrphaned reports whether an object carries the marks of a former Tenant of the
// Tenant's name, as after a restore of both from a backup, which gives new UIDs.
func isOrphaned(t *v1beta1.Tenant, o metav1.Object) bool {
	uid := types.UID(o.GetAnnotations()[v1beta1.AnnotationTenantUID])
	return uid != "" && uid != t.UID && o.GetLabels()[v1beta1.LabelTenant] == t.Name
}

// claimsTenant reports whether an object says, by annotation or by any owner
// reference, that it belongs to the Tenant with the given UID.
func claimsTenant(uid types.UID, o metav1.Object) bool {
	return slices.Contains(claimedTenants(o), uid)
}

// claimedTenants returns the UIDs of the Tenants an object says it belongs to.
func claimedTenants(o metav1.Object) []types.UID {
	var uids []types.UID
	if uid := o.GetAnnotations()[v1beta1.AnnotationTenantUID]; uid != "" {
		uids = append(uids, types.UID(uid))
	}
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == tenantKind.Kind && ref.APIVersion == tenantKind.GroupVersion().String() {
			uids = append(uids, ref.UID)
		}
	}
	return uids
}

var tenantKind = v1beta1.GroupVersion.WithKind("Tenant")

package tenant

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

// claims is the evidence about an object's owner, from its metadata and from the Tenant.
type claims struct {
	// annotationUID is the Tenant UID in the object's annotation, "" if it has none.
	annotationUID types.UID
	// controllerUID is the UID of the object's controlling owner, "" if it has none.
	controllerUID types.UID
	// objectUID is the UID of the object itself.
	objectUID types.UID
	// listed is true if the object's name is in the Tenant's spec or status.
	listed bool
	// recordedUID is the UID that the Tenant's status records for the name, "" if none.
	recordedUID types.UID
}

// owns reports whether the Tenant owns the object. It compares UIDs only. It returns true
// in two cases:
//
//   - the object's annotation has the Tenant's UID, and its name is listed;
//   - the Tenant's status records the UID of the object, which has lost its metadata.
//
// An annotation or a controller with another UID always means false.
func owns(tenant types.UID, c claims) bool {
	if tenant == "" || c.objectUID == "" {
		return false
	}
	if c.annotationUID != "" && c.annotationUID != tenant {
		return false
	}
	if c.controllerUID != "" && c.controllerUID != tenant {
		return false
	}
	labelled := c.annotationUID == tenant && c.listed
	recorded := c.recordedUID != "" && c.recordedUID == c.objectUID
	return labelled || recorded
}

// claimsOf reads an object's claims. The caller sets listed and recordedUID.
func claimsOf(o metav1.Object) claims {
	c := claims{objectUID: o.GetUID(), annotationUID: types.UID(o.GetAnnotations()[v1beta1.AnnotationTenantUID])}
	if ref := metav1.GetControllerOf(o); ref != nil {
		c.controllerUID = ref.UID
	}
	return c
}

// ownsNamespace reports whether the Tenant owns the namespace. A controller reference to
// a former Tenant of the same name does not count. After a restore, a new annotation alone
// hands the namespace over.
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

// ownsChild reports whether the Tenant owns a child whose name the operator chose. The
// annotation or the owner reference suffices, so that each restores the other.
func ownsChild(t *v1beta1.Tenant, child metav1.Object) bool {
	c := claimsOf(child)
	c.listed = true
	if c.controllerUID == t.UID {
		c.recordedUID = c.objectUID
	}
	return owns(t.UID, c)
}

// ownsReader reports whether the Tenant owns its reader ClusterRole or ClusterRoleBinding.
// It also owns a restored one of its predecessor, which grants the same rights.
func ownsReader(t *v1beta1.Tenant, child metav1.Object) bool {
	return ownsChild(t, child) || isOrphaned(t, child) && !isControlledByOther(t, child)
}

// ownsBinding reports whether the operator may write or delete the admins' RoleBinding in
// a namespace of the Tenant. The name is reserved there. The role admin allows tenants to
// edit RoleBindings, so neither stripped nor forged labels may retain rights. The only
// exception is a claim of another existing Tenant that names the namespace, as during a
// handover.
func ownsBinding(t *v1beta1.Tenant, binding metav1.Object, otherTenants map[types.UID]bool) bool {
	return !slices.ContainsFunc(foreignClaims(t, binding), func(uid types.UID) bool { return otherTenants[uid] })
}

// foreignClaims returns the UIDs of an object's annotation and controller that differ
// from the Tenant's.
func foreignClaims(t *v1beta1.Tenant, o metav1.Object) []types.UID {
	c := claimsOf(o)
	return slices.DeleteFunc([]types.UID{c.annotationUID, c.controllerUID}, func(uid types.UID) bool {
		return uid == "" || uid == t.UID
	})
}

// isPredecessor reports whether an owner reference names a former Tenant of the same
// name. Names are unique, so that Tenant does not exist any more.
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

// isOrphaned reports whether an object carries the ownership labels of a former Tenant of
// the same name. A restore of both from a backup has this effect, as it assigns new UIDs.
func isOrphaned(t *v1beta1.Tenant, o metav1.Object) bool {
	uid := types.UID(o.GetAnnotations()[v1beta1.AnnotationTenantUID])
	return uid != "" && uid != t.UID && o.GetLabels()[v1beta1.LabelTenant] == t.Name
}

// claimsTenant reports whether an object's annotation or any owner reference has the
// given Tenant UID.
func claimsTenant(uid types.UID, o metav1.Object) bool {
	return slices.Contains(claimedTenants(o), uid)
}

// claimedTenants returns the Tenant UIDs of an object's annotation and owner references.
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

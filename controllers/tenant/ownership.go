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

// ownsNamespace decides whether the namespace is the Tenant's.
func ownsNamespace(t *v1beta1.Tenant, listed map[string]bool, ns metav1.Object) bool {
	c := claimsOf(ns)
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

// ownsBinding decides whether the admins' RoleBinding in a namespace that is
// the Tenant's may be written. There the name is reserved: a binding that has
// lost its marks is put right, since otherwise an admin could strip them and
// keep rights that were taken away. One that another controller or another
// Tenant has marked is left alone.
func ownsBinding(t *v1beta1.Tenant, binding metav1.Object) bool {
	c := claimsOf(binding)
	c.recordedUID = c.objectUID
	return owns(t.UID, c)
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

package tenant

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// owns reports whether the Tenant owns an object. It compares UIDs only. It returns true in two cases:
//
//   - the object's annotation has the Tenant's UID, and its name is listed in the spec or the status;
//   - the Tenant has recorded the UID of the object, which has lost its metadata.
//
// An annotation or a controller with another UID always means false. Only a controller reference to a
// former Tenant of the same name does not count. So after a restore a new annotation alone hands an
// object over.
func owns(t *v1beta1.Tenant, o metav1.Object, listed bool, recorded types.UID) bool {
	uid := annotatedUID(o)
	if t.UID == "" || o.GetUID() == "" || uid != "" && uid != t.UID || isControlledByOther(t, o) {
		return false
	}
	return uid == t.UID && listed || recorded == o.GetUID()
}

func annotatedUID(o metav1.Object) types.UID {
	return types.UID(o.GetAnnotations()[v1beta1.AnnotationTenantUID])
}

// ownsNamespace reports whether the Tenant owns the namespace. Its arguments are the names of the spec
// and the status, and the UIDs of the status.
func ownsNamespace(t *v1beta1.Tenant, used map[string]bool, recorded map[string]types.UID, ns metav1.Object) bool {
	return owns(t, ns, used[ns.GetName()], recorded[ns.GetName()])
}

// ownsChild reports whether the Tenant owns a child whose name the operator chose. The
// annotation or the owner reference suffices, so that each restores the other.
func ownsChild(t *v1beta1.Tenant, child metav1.Object) bool {
	var recorded types.UID
	if metav1.IsControlledBy(child, t) {
		recorded = child.GetUID()
	}
	return owns(t, child, true, recorded)
}

// ownsReader reports whether the Tenant owns its reader ClusterRole or ClusterRoleBinding.
// It also owns a restored one of its predecessor, which grants the same rights.
func ownsReader(t *v1beta1.Tenant, child metav1.Object) bool {
	return ownsChild(t, child) || isOrphaned(t, child) && !isControlledByOther(t, child)
}

// isPredecessor reports whether an owner reference names a former Tenant of the same
// name. Names are unique, so that Tenant does not exist any more.
func isPredecessor(t *v1beta1.Tenant, ref metav1.OwnerReference) bool {
	return isTenant(ref) && ref.Name == t.Name && ref.UID != t.UID
}

// isTenant reports whether an owner reference is to a Tenant of this API, as others have that kind too.
func isTenant(ref metav1.OwnerReference) bool {
	return ref.APIVersion == tenantKind.GroupVersion().String() && ref.Kind == tenantKind.Kind
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
	uid := annotatedUID(o)
	return uid != "" && uid != t.UID && o.GetLabels()[v1beta1.LabelTenant] == t.Name
}

// claimedTenants returns the Tenant UIDs of an object's annotation and owner references.
func claimedTenants(o metav1.Object) []string {
	var uids []string
	if uid := annotatedUID(o); uid != "" {
		uids = append(uids, string(uid))
	}
	for _, ref := range o.GetOwnerReferences() {
		if isTenant(ref) {
			uids = append(uids, string(ref.UID))
		}
	}
	return uids
}

var tenantKind = v1beta1.GroupVersion.WithKind("Tenant")

// labelPodSecurity selects the Pod Security Standard that a namespace enforces.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

// ownershipMeta is the metadata that assigns an object to a Tenant.
type ownershipMeta struct {
	labels      map[string]string
	annotations map[string]string
	// owner is nil for an object that must outlive the Tenant.
	owner *metav1.OwnerReference
}

// childMeta returns the ownership metadata of all children except namespaces.
func childMeta(t *v1beta1.Tenant) ownershipMeta {
	return ownershipMeta{
		labels: map[string]string{
			v1beta1.LabelTenant:    t.Name,
			v1beta1.LabelManagedBy: v1beta1.ManagedByValue,
		},
		annotations: map[string]string{v1beta1.AnnotationTenantUID: string(t.UID)},
		owner:       metav1.NewControllerRef(t, tenantKind),
	}
}

// namespaceMeta returns the ownership metadata of a namespace. Under Retain it has no
// owner reference. In a foreground deletion the garbage collector deletes all dependents,
// and the Tenant's finalizer does not prevent that.
func namespaceMeta(t *v1beta1.Tenant, podSecurityLevel string) ownershipMeta {
	m := childMeta(t)
	if policyOf(t) == v1beta1.NamespaceRetain {
		m.owner = nil
	}
	if podSecurityLevel != "" {
		m.labels[labelPodSecurity] = podSecurityLevel
	}
	return m
}

// isSetOn reports whether the object carries all the metadata.
func (m ownershipMeta) isSetOn(o metav1.Object) bool {
	for k, v := range m.labels {
		if o.GetLabels()[k] != v {
			return false
		}
	}
	for k, v := range m.annotations {
		if o.GetAnnotations()[k] != v {
			return false
		}
	}
	return m.owner == nil || slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return equality.Semantic.DeepEqual(ref, *m.owner)
	})
}

// errMutated reports that the API server did not store what the operator wrote.
var errMutated = errors.New("an admission webhook or policy removes or changes the labels or annotations that the operator sets on the namespace")

func (m ownershipMeta) ownerConfig() []*metav1ac.OwnerReferenceApplyConfiguration {
	if m.owner == nil {
		return nil
	}
	return []*metav1ac.OwnerReferenceApplyConfiguration{metav1ac.OwnerReference().
		WithAPIVersion(m.owner.APIVersion).WithKind(m.owner.Kind).WithName(m.owner.Name).WithUID(m.owner.UID).
		WithController(*m.owner.Controller).WithBlockOwnerDeletion(*m.owner.BlockOwnerDeletion)}
}

func namespaceConfig(name string, m ownershipMeta) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(name).
		WithLabels(m.labels).WithAnnotations(m.annotations).WithOwnerReferences(m.ownerConfig()...)
}

// removeOwnershipMeta removes the Tenant's ownership metadata, and owner references to its
// predecessors, from a namespace in memory. It reports whether there was any. It retains
// the pod-security level, since a removal would weaken the restrictions on pods.
func removeOwnershipMeta(t *v1beta1.Tenant, ns *corev1.Namespace) bool {
	had := removeOwners(ns, func(ref metav1.OwnerReference) bool { return ref.UID == t.UID || isPredecessor(t, ref) })
	if ns.Labels[v1beta1.LabelTenant] == t.Name {
		delete(ns.Labels, v1beta1.LabelTenant)
		had = true
	}
	if ns.Labels[v1beta1.LabelManagedBy] == v1beta1.ManagedByValue {
		delete(ns.Labels, v1beta1.LabelManagedBy)
		had = true
	}
	if ns.Annotations[v1beta1.AnnotationTenantUID] == string(t.UID) {
		delete(ns.Annotations, v1beta1.AnnotationTenantUID)
		had = true
	}
	return had
}

// removeOwners removes the matching owner references from an object in memory, and
// reports whether there were any.
func removeOwners(o metav1.Object, matches func(metav1.OwnerReference) bool) bool {
	refs := o.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(refs), matches)
	if len(kept) == len(refs) {
		return false
	}
	if len(kept) == 0 {
		kept = nil
	}
	o.SetOwnerReferences(kept)
	return true
}

// ownerIndex returns the index of the first owner reference to the Tenant, or -1.
func ownerIndex(t *v1beta1.Tenant, o metav1.Object) int {
	return slices.IndexFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == t.UID })
}

// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
)

var tenantKind = v1beta1.GroupVersion.WithKind("Tenant")

// labelPodSecurity selects the Pod Security Standard that a namespace enforces.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

// owns reports whether the Tenant owns an object whose name the spec or the status lists, or the operator chose. It
// compares UIDs only. It returns true in two cases:
//
//   - the object's annotation has the Tenant's UID;
//   - the Tenant has recorded the UID of the object, which has lost its metadata.
//
// An annotation or a controller with another UID always means false. Only a controller reference to a
// former Tenant of the same name does not count, so after a restore a new annotation hands an object over.
func owns(t *v1beta1.Tenant, o metav1.Object, recorded types.UID) bool {
	uid := annotatedUID(o)
	if t.UID == "" || o.GetUID() == "" || uid != "" && uid != t.UID || isControlledByOther(t, o) {
		return false
	}
	return uid == t.UID || recorded == o.GetUID()
}

func annotatedUID(o metav1.Object) types.UID {
	return types.UID(o.GetAnnotations()[v1beta1.AnnotationTenantUID])
}

// ownsChild reports whether the Tenant owns a child whose name the operator chose. The annotation or the
// owner reference suffices, so that each restores the other.
func ownsChild(t *v1beta1.Tenant, child metav1.Object) bool {
	var recorded types.UID
	if metav1.IsControlledBy(child, t) {
		recorded = child.GetUID()
	}
	return owns(t, child, recorded)
}

// ownsReader reports whether the Tenant owns its reader ClusterRole or ClusterRoleBinding. It also owns a
// restored one of its predecessor, which grants the same rights.
func ownsReader(t *v1beta1.Tenant, child metav1.Object) bool {
	return ownsChild(t, child) || isOrphaned(t, child) && !isControlledByOther(t, child)
}

// isPredecessor reports whether an owner reference names a former Tenant of the same name. Names are
// unique, so that Tenant does not exist any more.
func isPredecessor(t *v1beta1.Tenant, ref metav1.OwnerReference) bool {
	return ref.APIVersion == tenantKind.GroupVersion().String() && ref.Kind == tenantKind.Kind &&
		ref.Name == t.Name && ref.UID != t.UID
}

// isControlledByOther reports whether a controller of an object is neither the Tenant nor a predecessor.
func isControlledByOther(t *v1beta1.Tenant, o metav1.Object) bool {
	ref := metav1.GetControllerOf(o)
	return ref != nil && ref.UID != t.UID && !isPredecessor(t, *ref)
}

// isOrphaned reports whether an object carries the ownership labels of a former Tenant of the same name,
// as after a restore of both from a backup, which assigns new UIDs.
func isOrphaned(t *v1beta1.Tenant, o metav1.Object) bool {
	uid := annotatedUID(o)
	return uid != "" && uid != t.UID && o.GetLabels()[v1beta1.LabelTenant] == t.Name
}

// childMeta returns the metadata that assigns a child to its Tenant.
func childMeta(t *v1beta1.Tenant, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:          map[string]string{v1beta1.LabelTenant: t.Name, v1beta1.LabelManagedBy: v1beta1.ManagedByValue},
		Annotations:     map[string]string{v1beta1.AnnotationTenantUID: string(t.UID)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(t, tenantKind)},
	}
}

// namespaceMeta returns the metadata that assigns a namespace to its Tenant. Under Retain it has no owner
// reference: in a foreground deletion the garbage collector would not wait for the Tenant's finalizer.
func namespaceMeta(t *v1beta1.Tenant, name, podSecurityLevel string) metav1.ObjectMeta {
	m := childMeta(t, "", name)
	if policyOf(t) == v1beta1.NamespaceRetain {
		m.OwnerReferences = nil
	}
	if podSecurityLevel != "" {
		m.Labels[labelPodSecurity] = podSecurityLevel
	}
	return m
}

// podSecurityLevels are the Pod Security Standards, the strictest last.
var podSecurityLevels = []string{"privileged", "baseline", "restricted"}

// stricterLevel returns the level of a namespace if it is stricter than that of the operator's flag.
func stricterLevel(flag string, live *corev1.Namespace) string {
	level := live.Labels[labelPodSecurity]
	if flag != "" && slices.Index(podSecurityLevels, level) > slices.Index(podSecurityLevels, flag) {
		return level
	}
	return flag
}

// drift names the labels, annotations and owner references of want that an object does not carry.
func drift(o metav1.Object, want metav1.ObjectMeta) []string {
	fields := append(driftOf("label", o.GetLabels(), want.Labels),
		driftOf("annotation", o.GetAnnotations(), want.Annotations)...)
	for _, owner := range want.OwnerReferences {
		if !slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return equality.Semantic.DeepEqual(ref, owner)
		}) {
			fields = append(fields, "the owner reference to Tenant "+owner.Name+" was missing or different")
		}
	}
	return fields
}

func driftOf(kind string, has, want map[string]string) (fields []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, exists := has[key]; !exists {
			fields = append(fields, fmt.Sprintf("%s %s was missing and is now %q", kind, key, want[key]))
		} else if value != want[key] {
			fields = append(fields, fmt.Sprintf("%s %s was %q and is %q", kind, key, value, want[key]))
		}
	}
	return fields
}

// errMutated reports that the API server did not store what the operator wrote.
var errMutated = failure.New(failure.Admission, "an admission webhook or policy removes or changes labels or "+
	"annotations that the operator sets on the namespace; exclude the operator from that webhook or policy")

// configOf adds the fields of an object to an apply configuration, which has the same JSON.
func configOf[C any](config C, o any) C {
	fields, err := json.Marshal(o)
	utilruntime.Must(errors.Join(err, json.Unmarshal(fields, config)))
	return config
}

// removeOwnershipMeta removes the Tenant's ownership metadata, and owner references to its predecessors,
// from a namespace in memory. It reports whether there was any. It retains the pod-security level, since a
// removal would weaken the restrictions on pods.
func removeOwnershipMeta(t *v1beta1.Tenant, ns *corev1.Namespace) bool {
	had := removeOwners(ns, func(ref metav1.OwnerReference) bool { return ref.UID == t.UID || isPredecessor(t, ref) })
	ours, before := childMeta(t, "", ""), len(ns.Labels)+len(ns.Annotations)
	maps.DeleteFunc(ns.Labels, func(key, value string) bool { return value != "" && ours.Labels[key] == value })
	maps.DeleteFunc(ns.Annotations, func(key, value string) bool { return value != "" && ours.Annotations[key] == value })
	return had || len(ns.Labels)+len(ns.Annotations) < before
}

// removeOwners removes the matching owner references from an object in memory, and reports whether there
// were any.
func removeOwners(o metav1.Object, matches func(metav1.OwnerReference) bool) bool {
	refs := o.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(refs), matches)
	if len(kept) == len(refs) {
		return false
	}
	o.SetOwnerReferences(kept)
	return true
}

// policyOf returns the policy of the spec, or Retain for a deletion with --cascade=orphan.
func policyOf(t *v1beta1.Tenant) v1beta1.NamespaceDeletionPolicy {
	if !t.DeletionTimestamp.IsZero() && slices.Contains(t.Finalizers, metav1.FinalizerOrphanDependents) ||
		t.Spec.NamespaceDeletionPolicy == v1beta1.NamespaceRetain {
		return v1beta1.NamespaceRetain
	}
	return v1beta1.NamespaceDelete
}

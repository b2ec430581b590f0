package slimcache

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

const (
	// elided replaces the removed labels or annotations. A merge patch that removes the last known
	// entry would otherwise remove the whole map, with the entries of other clients.
	elided = "leasehold.dev/elided"
	// maxText is longer than any valid UID, name or label value. A longer text belongs to no object
	// of the operator, and neither does its truncated form.
	maxText = 256
	// maxEntries bounds the owner references, without the controller's, and the finalizers of an
	// object.
	maxEntries = 16
)

// keptKeys are the labels and annotations that the controllers read from the cache. The list has
// names and no prefix, because an object can have thousands of entries with one prefix.
var keptKeys = []string{
	v1beta1.LabelTenant, v1beta1.LabelManagedBy, v1beta1.AnnotationTenantUID, v1beta1.AnnotationPaused, v1beta1.AnnotationRequestedAt, "pod-security.kubernetes.io/enforce",
}

// Trim drops the managed fields and the labels and annotations of other clients. It keeps
// finalizers and owner references complete, because a merge patch replaces these lists.
func Trim(in any) (any, error) {
	o, err := meta.Accessor(in)
	if err != nil {
		return in, nil //nolint:nilerr // a tombstone, whose object has been trimmed
	}
	o.SetManagedFields(nil)
	o.SetLabels(trimMap(o.GetLabels()))
	o.SetAnnotations(trimMap(o.GetAnnotations()))
	return in, nil
}

func trimMap(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	kept := map[string]string{}
	for _, key := range keptKeys {
		if value, found := all[key]; found {
			kept[key] = Truncate(value)
		}
	}
	if len(kept) < len(all) {
		kept[elided] = ""
	}
	return kept
}

// Owners returns the references that decide the ownership of an object: the controller's, and those
// to kinds of this operator. It is for objects whose owners are never written by a merge patch.
func Owners(o metav1.Object) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, ref := range o.GetOwnerReferences() {
		controls := ref.Controller != nil && *ref.Controller
		if !controls && (len(kept) >= maxEntries || ref.APIVersion != v1beta1.GroupVersion.String()) {
			continue
		}
		ref.APIVersion, ref.Kind, ref.Name = Truncate(ref.APIVersion), Truncate(ref.Kind), Truncate(ref.Name)
		ref.UID = types.UID(Truncate(string(ref.UID)))
		kept = append(kept, ref)
	}
	return kept
}

// Finalizers returns at most maxEntries finalizers. It is for objects whose finalizers are never
// written by a merge patch.
func Finalizers(o metav1.Object) []string {
	var kept []string
	for _, finalizer := range o.GetFinalizers() {
		if len(kept) < maxEntries {
			kept = append(kept, Truncate(finalizer))
		}
	}
	return kept
}

// Truncate bounds a text to more than any valid UID, name of an object or label value.
func Truncate(text string) string { return TruncateTo(text, maxText) }

// TruncateTo bounds a text and copies it, because a substring would retain the whole text in memory.
func TruncateTo(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.Clone(text[:bytes])
}

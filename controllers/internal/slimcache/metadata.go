package slimcache

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

const (
	// elided takes the place of the labels or annotations that are not kept. A merge patch
	// whose last entry goes would remove the whole map, and what others keep in it.
	elided = "leasehold.dev/elided"
	// maxText is longer than any UID, name or label value. A longer text in their place is
	// of no object of ours, and is none either when it is cut.
	maxText = 256
	// maxEntries is how many owner references, beside the controller's, and how many
	// finalizers of an object are kept.
	maxEntries = 16
)

// keptKeys are the labels and annotations that the controllers read from the cache. Keys
// are named and not matched by a prefix: an object can have thousands of one prefix.
var keptKeys = []string{
	v1beta1.LabelTenant, v1beta1.LabelManagedBy, v1beta1.AnnotationTenantUID, "pod-security.kubernetes.io/enforce",
}

// Trim drops managed fields and the labels and annotations of others. It keeps finalizers
// and owner references whole: a merge patch replaces these lists.
func Trim(in any) (any, error) {
	o, err := meta.Accessor(in)
	if err != nil {
		return in, nil //nolint:nilerr // a tombstone, whose object has been trimmed
	}
	o.SetManagedFields(nil)
	o.SetLabels(trimmed(o.GetLabels()))
	o.SetAnnotations(trimmed(o.GetAnnotations()))
	return in, nil
}

func trimmed(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	kept := map[string]string{}
	for _, key := range keptKeys {
		if value, found := all[key]; found {
			kept[key] = cut(value)
		}
	}
	if len(kept) < len(all) {
		kept[elided] = ""
	}
	return kept
}

// Owners are the references that say whose an object is: the controller's, and those to
// objects of our kinds. They are for objects whose owners no merge patch replaces.
func Owners(o metav1.Object) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, ref := range o.GetOwnerReferences() {
		controls := ref.Controller != nil && *ref.Controller
		if !controls && (len(kept) >= maxEntries || ref.APIVersion != v1beta1.GroupVersion.String()) {
			continue
		}
		ref.APIVersion, ref.Kind, ref.Name = cut(ref.APIVersion), cut(ref.Kind), cut(ref.Name)
		ref.UID = types.UID(cut(string(ref.UID)))
		kept = append(kept, ref)
	}
	return kept
}

// Finalizers are some of an object's, for objects of which no merge patch replaces them by
// others.
func Finalizers(o metav1.Object) []string {
	var kept []string
	for _, finalizer := range o.GetFinalizers() {
		if len(kept) < maxEntries {
			kept = append(kept, cut(finalizer))
		}
	}
	return kept
}

// cut bounds a text, and copies it: a substring would keep the whole in memory.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.Clone(text[:maxText])
}

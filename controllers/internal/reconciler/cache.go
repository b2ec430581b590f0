// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// Slim drops from a cached object what users may fill and no reconcile reads: managed fields, other
// annotations than those of requests and of the content, and all finalizers but these. It may see an
// object twice: a reflector passes streamed objects again.
func Slim(o client.Object, finalizers ...string) {
	o.SetManagedFields(nil)
	o.SetAnnotations(Only(o.GetAnnotations(), v1beta1.AnnotationPaused, v1beta1.AnnotationRequestedAt,
		v1beta1.AnnotationContentHash))
	var kept []string
	for _, finalizer := range finalizers {
		if slices.Contains(o.GetFinalizers(), finalizer) {
			kept = append(kept, finalizer)
		}
	}
	o.SetFinalizers(kept)
}

// Only returns a new map with these keys of another, or nil. A map or a list from which entries are
// deleted would keep its size in memory.
func Only(all map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

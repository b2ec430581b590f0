// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// snapshot is all objects of some Tenants and namespaces at one time, by "kind namespace/name".
type snapshot struct {
	objects map[string]unstructured.Unstructured
	// names are keys as "namespace/name".
	names map[string]bool
}

// takeSnapshot reads every object of all kinds in the namespaces and in the Tenants' namespaces,
// and all cluster-scoped objects of the Tenants. It omits events, which expire.
func takeSnapshot(ctx context.Context, of []client.Object, namespaces ...string) (*snapshot, error) {
	tenants, within := map[string]bool{}, map[string]bool{}
	for _, namespace := range namespaces {
		within[namespace] = true
	}
	for _, t := range of {
		tenants[t.GetName()] = true
		within[t.GetName()+"-dev"], within[t.GetName()+"-prod"] = true, true
	}
	all, err := shared.cluster.Objects(ctx)
	if err != nil {
		return nil, err
	}
	s := &snapshot{objects: map[string]unstructured.Unstructured{}, names: map[string]bool{}}
	for _, o := range all {
		belongs := within[o.GetNamespace()] || o.GetKind() == "Namespace" && within[o.GetName()] ||
			o.GetKind() == "Tenant" && tenants[o.GetName()] || o.GetNamespace() == "" &&
			tenants[o.GetLabels()[v1beta1.LabelTenant]]
		if belongs && o.GetKind() != "Event" {
			name := o.GetNamespace() + "/" + o.GetName()
			s.objects[o.GetKind()+" "+name], s.names[name] = o, true
		}
	}
	return s, nil
}

// snapshot reads the objects that the upgrade must not change, when they are no longer written.
func (u *releaseChange) snapshot(ctx context.Context, g *WithT) *snapshot {
	last := &snapshot{}
	await(ctx, g, func() ([]string, error) {
		before := last
		var err error
		if last, err = takeSnapshot(ctx, u.tenants, u.server.namespace, u.view.Namespace); err != nil {
			return nil, err
		}
		return before.changes(last, u), nil
	}, BeEmpty())
	return last
}

// changes lists the objects that were deleted, created, replaced or written since the snapshot,
// except for changes that the changelog announces.
func (s *snapshot) changes(later *snapshot, u *releaseChange) []string {
	var changes []string
	for _, key := range slices.Sorted(maps.Keys(later.objects)) {
		if _, known := s.objects[key]; !known && !u.belongsToViewers(later.objects[key]) {
			changes = append(changes, key+" is new")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		was := s.objects[key]
		is, known := later.objects[key]
		switch {
		case u.belongsToViewers(was):
		case !known:
			changes = append(changes, key+" was deleted")
		case was.GetUID() != is.GetUID():
			changes = append(changes, key+" was deleted and created again")
		case was.GetResourceVersion() != is.GetResourceVersion() && !u.isReport(was, is):
			changes = append(changes, fmt.Sprintf("%s was written: %s, then %s", key, was.GetResourceVersion(),
				is.GetResourceVersion()))
		}
	}
	return changes
}

// isReport reports whether two versions of an object of ours differ only in the times of the last probe
// and the last success, which are written every five minutes, or in announced messages of conditions.
func (u *releaseChange) isReport(was, is unstructured.Unstructured) bool {
	bare := func(o unstructured.Unstructured) map[string]any {
		o = *o.DeepCopy()
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		unstructured.RemoveNestedField(o.Object, "status", "lastProbeTime")
		unstructured.RemoveNestedField(o.Object, "status", "lastSuccessTime")
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && u.messagesChange {
				delete(c, "message")
			}
		}
		if len(conditions) > 0 {
			_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions") // it was a slice before
		}
		return o.Object
	}
	return was.GroupVersionKind().Group == v1beta1.GroupVersion.Group && reflect.DeepEqual(bare(was), bare(is))
}

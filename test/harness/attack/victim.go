// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"leasehold.dev/test/harness/scenario"
)

// ForgedOwners adds an owner reference to an object that the owner has not made: the
// garbage collector would delete the object with the owner.
const ForgedOwners = "forged-owner-references"

func forgedOwners(in Input) ([]scenario.Step, error) {
	if in.Victim == nil || in.Owner == nil {
		return nil, errors.New("it needs an object and an owner that exist")
	}
	forged := metav1.OwnerReference{
		APIVersion: in.Owner.GetAPIVersion(), Kind: in.Owner.GetKind(), Name: in.Owner.GetName(), UID: in.Owner.GetUID(),
	}
	var all []any
	for _, ref := range append(in.Victim.GetOwnerReferences(), forged) {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ref)
		if err != nil {
			return nil, err
		}
		all = append(all, fields)
	}
	return []scenario.Step{{Patch: &scenario.Patch{
		Object: *in.Object, Merge: map[string]any{"metadata": map[string]any{"ownerReferences": all}},
	}}}, nil
}

// AlteredMarks changes the values of the labels and annotations by which an operator recognises its
// objects, and removes the owner references. A label or annotation that the object lacks stays
// absent: adding one is another attack.
const AlteredMarks = "altered-marks"

func alteredMarks(in Input) ([]scenario.Step, error) {
	if in.Victim == nil || len(in.Marks) == 0 {
		return nil, errors.New("it needs an object that exists, and marks")
	}
	altered := func(have map[string]string) map[string]any {
		changed := map[string]any{}
		for key, value := range in.Marks {
			if _, there := have[key]; there {
				changed[key] = value
			}
		}
		return changed
	}
	labels, annotations := altered(in.Victim.GetLabels()), altered(in.Victim.GetAnnotations())
	if len(labels)+len(annotations) == 0 {
		return nil, errors.New("the object has none of the marks")
	}
	return []scenario.Step{{Patch: &scenario.Patch{Object: *in.Object, Merge: map[string]any{"metadata": map[string]any{
		"labels": labels, "annotations": annotations, "ownerReferences": nil,
	}}}}}, nil
}

package attack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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

// FilledObject adds labels to an object until the API server cannot store another one: any later
// write that makes the object larger fails. It takes the managed fields off, so all room is for
// labels, and the next apply has to record their manager.
const FilledObject = "filled-object"

// A label's key has a domain of several names, and a name. Each of them, and the value, has at most
// 63 characters.
const nameLength = 63

var labelDomain = strings.Repeat(strings.Repeat("x", nameLength-1)+".", 3) + strings.Repeat("x", nameLength)

// filledObject halves the amount with each step. The steps that are accepted add up to the limit,
// wherever below Size that is.
func filledObject(in Input) ([]scenario.Step, error) {
	label := len(labelDomain) + len("/") + 2*nameLength
	if in.Victim == nil || in.Size.Value() < int64(label) {
		return nil, errors.New("it needs an object that exists, and a size of at least one label")
	}
	var steps []scenario.Step
	for n, first := int(in.Size.Value())/label, 0; n > 0; {
		half := (n + 1) / 2
		labels := map[string]any{}
		for i := range half {
			labels[fmt.Sprintf("%s/%0*d", labelDomain, nameLength, first+i)] = strings.Repeat("x", nameLength)
		}
		first, n = first+half, n-half
		steps = append(steps, scenario.Step{Patch: &scenario.Patch{Object: *in.Object, Merge: map[string]any{
			"metadata": map[string]any{"labels": labels, "managedFields": []any{map[string]any{}}},
		}}})
	}
	return steps, nil
}

// ContestedFinalizers adds a finalizer to an object and removes it, again and again: each write
// changes the version, and a deletion that meets the finalizer leaves the object.
const ContestedFinalizers = "contested-finalizers"

// contestedFinalizer is the finalizer of the attacker.
const contestedFinalizer = "attack.example.com/contested"

// contestedFinalizers are the two writes. The second one restores the object.
func contestedFinalizers(in Input) ([]scenario.Step, error) {
	if in.Victim == nil {
		return nil, errors.New("it needs an object that exists")
	}
	own := in.Victim.GetFinalizers()
	patch := func(finalizers []string) scenario.Step {
		return scenario.Step{Patch: &scenario.Patch{Object: *in.Object, Merge: map[string]any{
			"metadata": map[string]any{"finalizers": finalizers},
		}}}
	}
	return []scenario.Step{patch(append(slices.Clone(own), contestedFinalizer)), patch(own)}, nil
}

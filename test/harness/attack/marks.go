package attack

import (
	"errors"

	"leasehold.dev/test/harness/scenario"
)

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

package attack

import (
	"errors"
	"fmt"
	"strings"

	"leasehold.dev/test/harness/scenario"
)

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

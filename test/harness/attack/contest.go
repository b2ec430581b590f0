package attack

import (
	"errors"
	"slices"

	"leasehold.dev/test/harness/scenario"
)

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

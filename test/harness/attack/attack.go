package attack

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/scenario"
)

// Input has the parameters of an attack.
type Input struct {
	scenario.Attack
	// BlackHoles are the URLs that replace $(endpoint), in turn.
	BlackHoles []string
	// Victim is the object that the parameters name, as it is now.
	Victim *unstructured.Unstructured
	// Owner is the current object whose UID the attacker forges.
	Owner *unstructured.Unstructured
}

// generators are all attacks by name.
var generators = map[string]func(Input) ([]scenario.Step, error){
	LargeObjects:        largeObjects,
	ManyObjects:         manyObjects,
	HighChurn:           highChurn,
	DeadEndpoint:        deadEndpoints,
	ForgedOwners:        forgedOwners,
	AlteredMarks:        alteredMarks,
	FilledObject:        filledObject,
	ContestedFinalizers: contestedFinalizers,
}

// Names returns the names of all attacks, in order. SlowBodies has no steps.
func Names() []string {
	names := append(slices.Collect(maps.Keys(generators)), SlowBodies)
	slices.Sort(names)
	return names
}

// Steps generates the steps of an attack.
func Steps(in Input) ([]scenario.Step, error) {
	generate, known := generators[in.Name]
	if !known {
		return nil, fmt.Errorf("generating an attack: none is called %q; there are %q", in.Name, Names())
	}
	steps, err := generate(in)
	if err != nil {
		return nil, fmt.Errorf("generating the attack %s: %w", in.Name, err)
	}
	return steps, nil
}

// SlowBodies holds requests at the webhooks of the operator by bodies that never end. It has no
// steps: a client without credentials does it past the API server.
const SlowBodies = "slow-bodies"

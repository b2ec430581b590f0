// SPDX-License-Identifier: Apache-2.0

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
	ManyObjects:  manyObjects,
	DeadEndpoint: deadEndpoints,
	ForgedOwners: forgedOwners,
	AlteredMarks: alteredMarks,
}

// Names returns the names of all attacks, in order.
func Names() []string { return slices.Sorted(maps.Keys(generators)) }

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

package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/scenario"
)

// Input is what an attack is generated from.
type Input struct {
	scenario.Attack
	// BlackHoles are the URLs that $(endpoint) stands for, in turn.
	BlackHoles []string
	// Victim is the object that the parameters name, as it is now.
	Victim *unstructured.Unstructured
	// Owner is the object whose UID the attacker forges, as it is now.
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

// The placeholders of a template.
const (
	index    = "$(index)"
	padding  = "$(padding)"
	endpoint = "$(endpoint)"
	ownerUID = "$(uid)" // of the owner
)

// filled applies the template once for each object, with its placeholders filled.
func filled(in Input) ([]scenario.Step, error) {
	text, err := json.Marshal(in.Template)
	if err != nil {
		return nil, fmt.Errorf("encoding the template: %w", err)
	}
	var steps []scenario.Step
	for i := range max(1, in.Count) {
		pairs := []string{index, strconv.Itoa(i), padding, strings.Repeat("x", int(in.Size.Value()))}
		if n := len(in.BlackHoles); n > 0 {
			pairs = append(pairs, endpoint, in.BlackHoles[i%n])
		}
		if in.Owner != nil {
			pairs = append(pairs, ownerUID, string(in.Owner.GetUID()))
		}
		step := scenario.Step{}
		if err := json.Unmarshal([]byte(strings.NewReplacer(pairs...).Replace(string(text))), &step.Apply); err != nil {
			return nil, fmt.Errorf("filling the template: %w", err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// uses reports whether the value has the placeholder in it.
func uses(value any, placeholder string) bool {
	text, err := json.Marshal(value)
	return err == nil && strings.Contains(string(text), placeholder)
}

// name is the name of the template's object.
func name(in Input) string {
	found, _, _ := unstructured.NestedString(in.Template, "metadata", "name")
	return found
}

// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/scenario"
)

// ManyObjects makes Count objects: what an operator does for each keeps it from those
// of others.
const ManyObjects = "many-objects"

func manyObjects(in Input) ([]scenario.Step, error) {
	if !uses(name(in), index) {
		return nil, errors.New("it needs a template whose name has " + index)
	}
	return filled(in)
}

// DeadEndpoint makes Count objects with endpoints that accept connections and never
// answer: each occupies a worker that waits for the answer.
const DeadEndpoint = "dead-endpoints"

func deadEndpoints(in Input) ([]scenario.Step, error) {
	if len(in.BlackHoles) == 0 || !uses(in.Template, endpoint) || !uses(name(in), index) {
		return nil, errors.New("it needs black holes, a template with " + endpoint + " and a name with " + index)
	}
	return filled(in)
}

// The placeholders of a template.
const (
	index    = "$(index)"
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
		pairs := []string{index, strconv.Itoa(i)}
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

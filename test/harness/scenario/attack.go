package scenario

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Hostile is that a hostile user attacks: one of the scenario's steps with an attack
// is done, which clean runs leave out.
const Hostile Perturbation = "P19"

// AttackTarget is the method of a target that is a step with an attack.
const AttackTarget = "ATTACK"

// Attack is an attack by name, with its parameters. The objects are the scenario's,
// so that no attack knows the operator.
type Attack struct {
	// Name is one of package attack.
	Name string `json:"name"`
	// Namespace is where the attacker acts. What is in it is not judged by promises
	// about objects. Empty: everything is judged.
	Namespace string `json:"namespace,omitempty"`
	// Count is how many objects or changes there are. Zero: one.
	Count int `json:"count,omitempty"`
	// Size is how many bytes $(padding) has.
	Size resource.Quantity `json:"size,omitzero"`
	// Endpoints is how many black holes $(endpoint) stands for. Zero: one for each object.
	Endpoints int `json:"endpoints,omitempty"`
	// Template is the object that is made. $(index), $(padding) and $(endpoint) in it
	// are filled for each object.
	Template map[string]any `json:"template,omitempty"`
	// Object is what is altered.
	Object *Ref `json:"object,omitempty"`
	// Owner is what forged owner references name.
	Owner *Ref `json:"owner,omitempty"`
	// Marks are labels and annotations, and the values that the attacker gives to those
	// that the object has.
	Marks map[string]string `json:"marks,omitempty"`
}

func (a Attack) validate(step string) error {
	switch {
	case step == "":
		return errors.New("an attack needs a name: its plan is called by it")
	case a.Name == "":
		return errors.New("an attack needs the name of one in the library")
	case a.Count < 0 || a.Endpoints < 0:
		return fmt.Errorf("attack %s: neither count nor endpoints may be negative", a.Name)
	case (a.Template == nil) == (a.Object == nil):
		return fmt.Errorf("attack %s: it needs either a template or an object", a.Name)
	case a.Object != nil:
		return a.Object.validate()
	}
	return nil
}

// Hostile returns the namespaces from which the scenario's attacks come.
func (s Scenario) Hostile() []string {
	var all []string
	for _, step := range s.Steps {
		if step.Attack != nil && step.Attack.Namespace != "" {
			all = append(all, step.Attack.Namespace)
		}
	}
	return all
}

// attacks are the attacks of the scenario, one at a time.
func attacks(d *derivation) []Plan {
	var plans []Plan
	for i, step := range d.scenario.Steps {
		if step.Attack != nil {
			plans = append(plans, d.plan(Hostile, "", Target{Method: AttackTarget, Path: step.Name, Nth: i + 1}))
		}
	}
	return plans
}

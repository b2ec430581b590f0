// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
)

// Attack names an attack and its parameters. The objects come from the scenario, so no attack
// depends on an operator.
type Attack struct {
	// Name is one of package attack.
	Name string `json:"name"`
	// Namespace is where the attacker acts. Promises about objects do not cover it. Empty means
	// that all namespaces are judged.
	Namespace string `json:"namespace,omitempty"`
	// Count is the number of objects or changes. Zero means one.
	Count int `json:"count,omitempty"`
	// Endpoints is the number of black holes for $(endpoint). Zero means one for each object.
	Endpoints int `json:"endpoints,omitempty"`
	// Template is the object to create. $(index), $(endpoint) and $(uid), the owner's, are
	// filled for each object.
	Template map[string]any `json:"template,omitempty"`
	// Object is the object to alter.
	Object *Ref `json:"object,omitempty"`
	// Owner is the object that forged owner references and $(uid) name.
	Owner *Ref `json:"owner,omitempty"`
	// Marks maps labels and annotations of the object to the attacker's values.
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
	case a.Template != nil && a.Object != nil:
		return fmt.Errorf("attack %s: it needs either a template or an object", a.Name)
	case a.Object != nil:
		return a.Object.validate()
	}
	return nil
}

// Hostile returns the namespaces of the scenario's attackers.
func (s Scenario) Hostile() []string {
	var all []string
	for _, step := range s.Steps {
		if step.Attack != nil && step.Attack.Namespace != "" {
			all = append(all, step.Attack.Namespace)
		}
	}
	return all
}

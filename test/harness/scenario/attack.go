// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
)

// Attack is a write of a hostile user, which clean runs leave out. In it $(index), $(endpoint) and
// $(uid) are filled.
type Attack struct {
	// Namespace is where the attacker acts. Promises about objects do not cover it. Empty means
	// that all namespaces are judged.
	Namespace string `json:"namespace,omitempty"`
	// Count is the number of writes. $(index) is 0 in the first. Zero means one.
	Count int `json:"count,omitempty"`
	// Endpoints is the number of URLs for $(endpoint), which accept connections and never answer.
	// Zero means one for each write.
	Endpoints int `json:"endpoints,omitempty"`
	// Owner is the object whose UID is $(uid).
	Owner *Ref `json:"owner,omitempty"`
	// Apply is the object to apply.
	Apply map[string]any `json:"apply,omitempty"`
	Patch *Patch         `json:"patch,omitempty"`
}

func (a Attack) validate(step string) error {
	switch {
	case step == "":
		return errors.New("an attack needs a name: its plan is called by it")
	case a.Count < 0 || a.Endpoints < 0:
		return fmt.Errorf("attack %s: neither count nor endpoints may be negative", step)
	case (a.Apply == nil) == (a.Patch == nil):
		return fmt.Errorf("attack %s: it needs either apply or patch", step)
	case a.Patch != nil:
		return a.Patch.Object.validate()
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

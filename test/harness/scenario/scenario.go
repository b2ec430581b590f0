// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// FaultName is the name of a fault, which is the same in plans, files and reports. Package run has
// all faults.
type FaultName string

// Scenario is what happens in a run, except for the fault.
type Scenario struct {
	Name string `json:"name"`
	// Invariants are the names of those that the scenario tests. A run proves nothing if one of
	// them cannot be judged. Others are judged as far as the run allows.
	Invariants []string `json:"invariants,omitempty"`
	// Faults are the names of those that are tried. Empty: all.
	Faults []FaultName `json:"faults,omitempty"`
	// Users are those that steps name in As. All others act as an administrator.
	Users []User `json:"users,omitempty"`
	// Steps are done one after another. The last one is a quiesce.
	Steps []Step `json:"steps"`
}

// Step is one thing that is done: exactly one of its actions is set.
type Step struct {
	// Name identifies the step in messages. A Quiesce must have one.
	Name string `json:"name,omitempty"`
	// As is the name of the acting user, in apply, patch, scale, delete and attack. Empty means an
	// administrator.
	As string `json:"as,omitempty"`
	// Refused means that the API server must or may refuse the step. It is for apply, patch, scale,
	// delete and attack, and applies to all their writes.
	Refused Refusal `json:"refused,omitempty"`
	// Apply is an object that a user applies, with force.
	Apply map[string]any `json:"apply,omitempty"`
	Patch *Patch         `json:"patch,omitempty"`
	Scale *Scale         `json:"scale,omitempty"`
	// Delete deletes an object as kubectl does. A missing object is no error.
	Delete  *Ref     `json:"delete,omitempty"`
	Wait    *Wait    `json:"wait,omitempty"`
	Quiesce *Quiesce `json:"quiesce,omitempty"`
	// Sleep is a time in which users do nothing.
	Sleep metav1.Duration `json:"sleep,omitzero"`
	// External is a change of the external system by another client: the action and the thing. The
	// external system defines the actions.
	External map[string]string `json:"external,omitempty"`
	// May is an access with its expected answer.
	May *Access `json:"may,omitempty"`
	// Attack is an action of a hostile user. It is part of the plans of the fault attack only.
	Attack *Attack `json:"attack,omitempty"`
}

// Change returns what the step changes outside the cluster; "" and "" if it changes nothing there.
func (s Step) Change() (what, thing string) {
	for what, thing = range s.External {
		return what, thing
	}
	return "", ""
}

// Ref names an object.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is kind, namespace and name.
func (r Ref) String() string { return r.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/") }

// Patch merges a change into an object (JSON merge patch).
type Patch struct {
	Object Ref            `json:"object"`
	Merge  map[string]any `json:"merge"`
}

// Quiesce waits until the desired state is reached and the operator has stopped writing, and then
// observes it. It becomes a checkpoint in the history.
type Quiesce struct {
	// Until are the conditions of the desired state.
	Until []Wait `json:"until,omitempty"`
	// Like is the name of an earlier checkpoint, whose state the objects must have again.
	Like string `json:"like,omitempty"`
	// For is the duration of the observation.
	For metav1.Duration `json:"for"`
	// Idle is how long the operator has not written before the observation begins: longer than it pauses before it tries
	// again. Zero: a second.
	Idle metav1.Duration `json:"idle,omitzero"`
	// Busy means that the operator is not done here, as what it needs is not there: it may write, and
	// neither the state nor what was created and deleted in the run is compared with clean runs.
	Busy bool `json:"busy,omitempty"`
	// Within bounds the time until the desired state. Zero: a minute.
	Within metav1.Duration `json:"within,omitzero"`
}

// Scale sets the replicas of an object through its scale subresource.
type Scale struct {
	Object   Ref    `json:"object"`
	Replicas *int32 `json:"replicas"`
}

func (s Scale) validate() error {
	if s.Replicas == nil || *s.Replicas < 0 {
		return fmt.Errorf("scaling %s needs replicas, at least 0", s.Object)
	}
	return s.Object.validate()
}

// Parse reads a scenario from YAML. Unknown fields are an error.
func Parse(text []byte) (s Scenario, err error) {
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return s, fmt.Errorf("reading the scenario: %w", err)
	}
	return s, s.Validate()
}

// Separator separates the name of a scenario from the rest of a plan's ID.
const Separator = ":"

// Validate finds what cannot be run.
func (s Scenario) Validate() error {
	var errs []error
	if s.Name == "" || strings.Contains(s.Name, Separator) {
		errs = append(errs, fmt.Errorf("the name %q is empty or has a %q in it", s.Name, Separator))
	}
	errs = append(errs, s.validateUsers())
	marks := map[string]bool{}
	for i, step := range s.Steps {
		if err := errors.Join(step.validate(), s.validateUserOf(step)); err != nil {
			errs = append(errs, fmt.Errorf("step %d %s: %w", i+1, step.Name, err))
		}
		if step.Quiesce == nil {
			continue
		}
		if step.Name == "" || marks[step.Name] {
			errs = append(errs, fmt.Errorf("step %d: a quiesce needs a name of its own", i+1))
		}
		if like := step.Quiesce.Like; like != "" && !marks[like] {
			errs = append(errs, fmt.Errorf("step %d %s: like names no earlier quiesce: %q", i+1, step.Name, like))
		}
		marks[step.Name] = true
	}
	if len(s.Steps) == 0 || s.Steps[len(s.Steps)-1].Quiesce == nil {
		errs = append(errs, errors.New(
			"the last step has to be a quiesce: without rest at the end there is nothing to judge"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checking scenario %q: %w", s.Name, err)
	}
	return nil
}

// Actions are the names of the step's actions, which is one in a valid scenario.
func (s Step) Actions() []string {
	var actions []string
	note := func(there bool, name string) {
		if there {
			actions = append(actions, name)
		}
	}
	note(s.Apply != nil, "apply")
	note(s.Patch != nil, "patch")
	note(s.Scale != nil, "scale")
	note(s.Delete != nil, "delete")
	note(s.Wait != nil, "wait")
	note(s.Quiesce != nil, "quiesce")
	note(s.Sleep != metav1.Duration{}, "sleep")
	note(s.External != nil, "external")
	note(s.May != nil, "may")
	note(s.Attack != nil, "attack")
	return actions
}

func (s Step) validate() error {
	if actions := s.Actions(); len(actions) != 1 {
		return fmt.Errorf("it has %d actions %v, and a step has one", len(actions), actions)
	}
	if s.Refused != "" && !s.isWrite() && s.Attack == nil {
		return errors.New("refused is for apply, patch, scale, delete and attack")
	}
	return s.validateAction()
}

// isWrite reports whether the step is a request that the API server may refuse.
func (s Step) isWrite() bool {
	return s.Apply != nil || s.Patch != nil || s.Scale != nil || s.Delete != nil
}

func (s Step) validateAction() error {
	switch {
	case s.May != nil:
		return s.May.validate()
	case s.Attack != nil:
		return s.Attack.validate(s.Name)
	case s.External != nil:
		if what, thing := s.Change(); len(s.External) != 1 || what == "" || thing == "" {
			return fmt.Errorf("it has %d external changes, and a step has one, to one thing", len(s.External))
		}
	case s.Patch != nil:
		return s.Patch.Object.validate()
	case s.Scale != nil:
		return s.Scale.validate()
	case s.Delete != nil:
		return s.Delete.validate()
	case s.Sleep.Duration < 0:
		return fmt.Errorf("it cannot sleep for %s", s.Sleep.Duration)
	case s.Wait != nil:
		return s.Wait.validate()
	case s.Quiesce != nil:
		if s.Quiesce.For.Duration <= 0 {
			return errors.New("it does not say for how long all has to be at rest")
		}
		for _, w := range s.Quiesce.Until {
			if err := w.validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r Ref) validate() error {
	if r.APIVersion == "" || r.Kind == "" || r.Name == "" {
		return fmt.Errorf("%q names no object: apiVersion, kind and name are needed", r)
	}
	return nil
}

// placeholder is a name in braces, or a value that something outside the cluster
// has, as in {store.endpoint}. JSON's own braces are followed by a quote.
var placeholder = regexp.MustCompile(`\{([a-z][a-z0-9-]*(?:\.[A-Za-z0-9]+)?)\}`)

// Names returns the placeholders in the scenario for names of its objects, without braces, each once.
func (s Scenario) Names() ([]string, error) {
	return s.placeholders(func(name string) bool { return !strings.Contains(name, ".") })
}

// Values returns the placeholders for values of external systems, as in store.endpoint, each once.
func (s Scenario) Values() ([]string, error) {
	return s.placeholders(func(name string) bool { return strings.Contains(name, ".") })
}

func (s Scenario) placeholders(wanted func(string) bool) ([]string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding scenario %q: %w", s.Name, err)
	}
	var names []string
	for _, found := range placeholder.FindAllSubmatch(text, -1) {
		if name := string(found[1]); wanted(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Fill returns text with the placeholders replaced by these names. One that has
// no name stays as it is.
func Fill(text string, names map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if name, known := names[found[1:len(found)-1]]; known {
			return name
		}
		return found
	})
}

// Fill returns the scenario with its placeholders replaced.
func (s Scenario) Fill(names map[string]string) (Scenario, error) {
	var filled Scenario
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal([]byte(Fill(string(text), names)), &filled)
	}
	if err != nil {
		return filled, fmt.Errorf("naming the objects of scenario %q: %w", s.Name, err)
	}
	return filled, nil
}

// Acts reports whether the step does something, and does not just wait.
func (s Step) Acts() bool {
	return s.Wait == nil && s.Quiesce == nil && s.May == nil && s.Sleep.Duration == 0
}

// IsHasty reports whether users change one object several times between the checkpoint before a
// step and the step.
func (s Scenario) IsHasty(step int) bool {
	var changed []Ref
	for _, earlier := range slices.Backward(s.Steps[:step]) {
		if earlier.Quiesce != nil {
			return false
		}
		ref := earlier.Changed()
		if ref == (Ref{}) {
			continue
		}
		if slices.Contains(changed, ref) {
			return true
		}
		changed = append(changed, ref)
	}
	return false
}

// Changed is the object that the step changes; zero if it changes none.
func (s Step) Changed() Ref {
	switch {
	case s.Apply != nil:
		return RefOf(&unstructured.Unstructured{Object: s.Apply})
	case s.Patch != nil:
		return s.Patch.Object
	case s.Scale != nil:
		return s.Scale.Object
	case s.Delete != nil:
		return *s.Delete
	}
	return Ref{}
}

// RefOf names an object.
func RefOf(o *unstructured.Unstructured) Ref {
	return Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

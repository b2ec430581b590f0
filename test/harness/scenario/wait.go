// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// Wait is a state that an object must reach. Exactly one of Condition, Field, Current, Exists and
// Gone is set.
type Wait struct {
	Object Ref `json:"object"`
	// Condition is the type of a condition with the wanted status for the current generation.
	Condition string `json:"condition,omitempty"`
	// Status is the expected status of the condition. Empty: True.
	Status string `json:"status,omitempty"`
	// Field is the path of a field that has Value: a JSONPath without its braces and its first dot,
	// as in status.phase or status.conditions[?(@.type=="Ready")].reason.
	Field string `json:"field,omitempty"`
	// Value is a text, a number or a truth value.
	Value any `json:"value,omitempty"`
	// Current means that the object's kstatus is Current.
	Current bool `json:"current,omitempty"`
	Exists  bool `json:"exists,omitempty"`
	Gone    bool `json:"gone,omitempty"`
	// Within bounds the wait. Zero: a minute. Quiesce has its own.
	Within metav1.Duration `json:"within,omitzero"`
}

// String describes the awaited state.
func (w Wait) String() string {
	switch {
	case w.Gone:
		return w.Object.String() + " to be gone"
	case w.Exists:
		return w.Object.String() + " to exist"
	case w.Current:
		return w.Object.String() + " to be current"
	case w.Field != "":
		return fmt.Sprintf("%s to have %s: %s", w.Object, w.Field, described(w.Value))
	}
	return fmt.Sprintf("%s to have %s=%s", w.Object, w.Condition, w.wantedStatus())
}

func (w Wait) wantedStatus() string { return cmp.Or(w.Status, string(metav1.ConditionTrue)) }

func (w Wait) validate() error {
	states := 0
	for _, set := range []bool{w.Condition != "", w.Field != "", w.Current, w.Exists, w.Gone} {
		if set {
			states++
		}
	}
	if states != 1 {
		return fmt.Errorf("waiting for %s needs either a condition or gone, or else exists, current or field: one of them",
			w.Object)
	}
	if w.Status != "" && w.Condition == "" {
		return errors.New("status is that of a condition, which is not named")
	}
	if (w.Field != "") != (w.Value != nil) {
		return errors.New("field and value need each other")
	}
	if w.Field != "" {
		if _, err := parsePath(w.Field); err != nil {
			return err
		}
	}
	return w.Object.validate()
}

// Met reports whether an existing object is in the state.
func (w Wait) Met(o *unstructured.Unstructured) bool {
	switch {
	case w.Gone:
		return false
	case w.Exists:
		return true
	case w.Current:
		result, err := status.Compute(o)
		return err == nil && result.Status == status.CurrentStatus
	case w.Field != "":
		return w.hasValue(o)
	}
	return w.hasCondition(o)
}

// hasCondition reports whether the condition has the status for the current generation. The
// generation is the condition's own, or else the status's; a condition without either counts.
func (w Wait) hasCondition(o *unstructured.Unstructured) bool {
	about, known, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if !ok || condition["type"] != w.Condition {
			continue
		}
		if own, ok := condition["observedGeneration"].(int64); ok {
			about, known = own, true
		}
		return condition["status"] == w.wantedStatus() && (!known || about == o.GetGeneration())
	}
	return false
}

// hasValue reports whether the path matches exactly one value, and it is the wanted one.
func (w Wait) hasValue(o *unstructured.Unstructured) bool {
	path, err := parsePath(w.Field)
	if err != nil {
		return false
	}
	found, err := path.FindResults(o.Object)
	if err != nil || len(found) != 1 || len(found[0]) != 1 {
		return false
	}
	// In JSON a number is an integer by its value, whatever type it was decoded into.
	have, err := json.Marshal(found[0][0].Interface())
	if err != nil {
		return false
	}
	want, err := json.Marshal(w.Value)
	return err == nil && bytes.Equal(have, want)
}

// Unmet is String with the value that an object has instead, for a field.
func (w Wait) Unmet(o *unstructured.Unstructured) string {
	if w.Field == "" || o == nil {
		return w.String()
	}
	path, err := parsePath(w.Field)
	if err != nil {
		return w.String()
	}
	found, err := path.FindResults(o.Object)
	if err != nil || len(found) != 1 || len(found[0]) == 0 {
		return w.String() + "; it has no such field"
	}
	var values []string
	for _, value := range found[0] {
		values = append(values, described(value.Interface()))
	}
	return w.String() + "; it has " + strings.Join(values, ", ")
}

// described is a value with its type, as 1 and "1" differ.
func described(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	switch value.(type) {
	case string:
		return fmt.Sprintf("the text %s", text)
	case bool:
		return fmt.Sprintf("the truth value %s", text)
	case int, int64, float64:
		return fmt.Sprintf("the number %s", text)
	}
	return string(text)
}

func parsePath(field string) (*jsonpath.JSONPath, error) {
	path := jsonpath.New(field).AllowMissingKeys(true)
	if err := path.Parse("{." + strings.TrimPrefix(field, ".") + "}"); err != nil {
		return nil, fmt.Errorf("reading field %q, which is a path such as status.phase: %w", field, err)
	}
	return path, nil
}

// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HaveCondition matches an object of any kind whose status.conditions holds the
// condition with this status and, if reasons are given, with one of them.
func HaveCondition(conditionType string, status metav1.ConditionStatus, reasons ...string) types.GomegaMatcher {
	want := fmt.Sprintf("to have the condition %s=%s", conditionType, status)
	if len(reasons) > 0 {
		want += " because of " + strings.Join(reasons, " or ")
	}
	return &objectMatcher{want: want, judge: func(o client.Object) (bool, string, error) {
		conditions, err := conditionsOf(o)
		if err != nil {
			return false, "", err
		}
		holds := slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
			return c.Type == conditionType && c.Status == status &&
				(len(reasons) == 0 || slices.Contains(reasons, c.Reason))
		})
		return holds, "conditions: " + list(conditionLines(conditions)), nil
	}}
}

// HaveObservedGeneration matches an object whose status is for its current spec:
// status.observedGeneration equals metadata.generation.
func HaveObservedGeneration() types.GomegaMatcher {
	return &objectMatcher{want: "to have observed its current generation",
		judge: func(o client.Object) (bool, string, error) {
			content, err := contentOf(o)
			if err != nil {
				return false, "", err
			}
			observed, found, err := unstructured.NestedInt64(content, "status", "observedGeneration")
			if err != nil {
				return false, "", fmt.Errorf("reading status.observedGeneration of %s: %w", describe(o), err)
			}
			if !found {
				return false, fmt.Sprintf("generation %d, no status.observedGeneration", o.GetGeneration()), nil
			}
			return observed == o.GetGeneration(), fmt.Sprintf("generation %d, observed %d", o.GetGeneration(), observed), nil
		}}
}

func conditionsOf(o client.Object) ([]metav1.Condition, error) {
	content, err := contentOf(o)
	if err != nil {
		return nil, err
	}
	raw, _, err := unstructured.NestedSlice(content, "status", "conditions")
	if err != nil {
		return nil, fmt.Errorf("reading status.conditions of %s: %w", describe(o), err)
	}
	conditions := make([]metav1.Condition, len(raw))
	for i, item := range raw {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading status.conditions of %s: item %d is not an object", describe(o), i)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &conditions[i]); err != nil {
			return nil, fmt.Errorf("reading status.conditions of %s: %w", describe(o), err)
		}
	}
	return conditions, nil
}

func conditionLines(conditions []metav1.Condition) []string {
	lines := make([]string, 0, len(conditions))
	for _, c := range conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s (generation %d)", c.Type, c.Status, c.Reason, c.Message,
			c.ObservedGeneration))
	}
	return lines
}

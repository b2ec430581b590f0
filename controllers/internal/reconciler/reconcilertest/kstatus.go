// SPDX-License-Identifier: Apache-2.0

// Package reconcilertest records the actions of controllers in tests, and checks their reports.
package reconcilertest

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// BeingDeleted is the key of terminating objects in CheckKstatus.
const BeingDeleted = "being deleted"

// CheckKstatus compares the kstatus results of objects, as deployment tools such as Flux and Helm
// compute them, with want. The keys of want are the status and reason of the Ready condition, as in
// "False Progressing", or BeingDeleted. An object whose spec has changed since its report is in
// progress.
func CheckKstatus(t *testing.T, reported []client.Object, want map[string]status.Status) {
	t.Helper()
	got := map[string]status.Status{}
	for _, o := range reported {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: fields}
		key, verdict := keyOf(object), compute(t, object)
		if before, known := got[key]; known && before != verdict {
			t.Errorf("%s is both %s and %s", key, before, verdict)
		}
		got[key] = verdict
		object.SetGeneration(object.GetGeneration() + 1)
		if verdict := compute(t, object); key != BeingDeleted && verdict != status.InProgressStatus {
			t.Errorf("%s is %s after a change of the spec, want InProgress", key, verdict)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kstatus by the Ready condition (-want +got):\n%s", diff)
	}
}

func compute(t *testing.T, object *unstructured.Unstructured) status.Status {
	t.Helper()
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

func keyOf(object *unstructured.Unstructured) string {
	if object.GetDeletionTimestamp() != nil {
		return BeingDeleted
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == v1beta1.ConditionReady {
			return c["status"].(string) + " " + c["reason"].(string)
		}
	}
	return " "
}

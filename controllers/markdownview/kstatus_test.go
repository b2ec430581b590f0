package markdownview

import (
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// kstatusOf returns how deployment tools such as Flux and Helm judge an object.
func kstatusOf(t *testing.T, o client.Object) status.Status {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: fields})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// reportedStatuses returns the MarkdownView with each status that the operator reports in the scenarios.
func reportedStatuses(t *testing.T) []client.Object {
	t.Helper()
	var all []client.Object
	for _, s := range scenarios() {
		r := newRecording(t, s.objects...)
		r.run(s.steps...)
		all = append(all, r.reported...)
	}
	return all
}

// A status means to deployment tools what this table has for its Ready condition. Failed is what
// only a person can solve; the operator retries what is InProgress.
func TestKstatus(t *testing.T) {
	want := map[string]status.Status{
		"False ChildConflict":       status.FailedStatus,
		"False RBACForbidden":       status.FailedStatus,
		"False InvalidSpec":         status.FailedStatus,
		"False RolloutStalled":      status.FailedStatus,
		"False Progressing":         status.InProgressStatus,
		"False NoReplicasAvailable": status.InProgressStatus,
		"False AdmissionDenied":     status.InProgressStatus,
		"False QuotaExceeded":       status.InProgressStatus,
		"False ReconcileFailed":     status.InProgressStatus,
		"True Reconciled":           status.CurrentStatus,
	}
	got := map[string]status.Status{}
	for _, o := range reportedStatuses(t) {
		reported := o.(*v1beta1.MarkdownView)
		ready := reporting.FindCondition(reported.Status.Conditions, v1beta1.ConditionReady)
		key := fmt.Sprintf("%s %s", ready.Status, ready.Reason)
		if !reported.DeletionTimestamp.IsZero() {
			key = "being deleted"
		}
		verdict := kstatusOf(t, reported)
		if before, isKnown := got[key]; isKnown && before != verdict {
			t.Errorf("%s is both %s and %s", key, before, verdict)
		}
		got[key] = verdict
		reported.Generation++
		if verdict := kstatusOf(t, reported); key != "being deleted" && verdict != status.InProgressStatus {
			t.Errorf("%s is %s after a change of the spec, want InProgress", key, verdict)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kstatus by the Ready condition (-want +got):\n%s", diff)
	}
}

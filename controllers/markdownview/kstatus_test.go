package markdownview

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// reportedStatuses returns the MarkdownView with each status that the operator reports in the
// scenarios.
func reportedStatuses(t *testing.T) []client.Object {
	t.Helper()
	var all []client.Object
	for _, s := range scenarios() {
		r := newRecording(t, s.objects...)
		r.run(s.steps...)
		all = append(all, r.Reported...)
	}
	return all
}

// The table has the kstatus result that deployment tools derive from each reason of Ready. Failed
// needs a user; the operator retries what is InProgress.
func TestKstatus(t *testing.T) {
	reconcilertest.CheckKstatus(t, reportedStatuses(t), map[string]status.Status{
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
	})
}

package tenant

import (
	"errors"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// reportedStatuses returns the Tenant with each status that the operator writes in the
// scenarios and after failed writes.
func reportedStatuses(t *testing.T) []client.Object {
	t.Helper()
	var all []client.Object
	for _, s := range scenarios() {
		r := newRecording(t, s)
		r.settle()
		all = append(all, r.Reported...)
	}
	r := newRecording(t, scenario{objects: []client.Object{tenant("a")}})
	r.fail = func(request string) error {
		if strings.HasPrefix(request, "apply as leasehold RoleBinding") {
			return errors.New("the API server fails")
		}
		return nil
	}
	r.settle()
	all = append(all, r.Reported...)
	return all
}

// The table maps each reason of Ready to the kstatus that deployment tools compute. Failed
// requires a user's action; the operator retries while it is InProgress.
func TestKstatus(t *testing.T) {
	reconcilertest.CheckKstatus(t, reportedStatuses(t), map[string]status.Status{
		"False NamespaceConflict":    status.FailedStatus,
		"False ChildConflict":        status.FailedStatus,
		"False RBACForbidden":        status.FailedStatus,
		"False AdminRoleNotFound":    status.FailedStatus,
		"False InvalidSpec":          status.FailedStatus,
		"False Progressing":          status.InProgressStatus,
		"False NamespaceTerminating": status.InProgressStatus,
		"False AdmissionDenied":      status.InProgressStatus,
		"False QuotaExceeded":        status.InProgressStatus,
		"False ReconcileFailed":      status.InProgressStatus,
		"True Reconciled":            status.CurrentStatus,
		reconcilertest.BeingDeleted:  status.TerminatingStatus,
	})
}

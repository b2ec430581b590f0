// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
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
		w := s.world(t)
		w.settle()
		all = append(all, w.Reported...)
	}
	w := newWorld(t, tenant("a"))
	w.deny = refuse("apply as leasehold RoleBinding", errors.New("the API server fails"))
	w.settle()
	return append(all, w.Reported...)
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

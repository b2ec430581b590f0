package storagebucket

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// reportedStatuses returns the StorageBucket with each status that the operator writes in the
// scenarios and after failed writes.
func reportedStatuses(t *testing.T) []client.Object {
	t.Helper()
	var all []client.Object
	for _, s := range scenarios() {
		r := newRecording(t, s)
		r.run(max(s.reconciles, 2))
		all = append(all, r.Reported...)
	}
	for _, reason := range allReasons[1:] {
		s := newStatusSequence(func(b *v1beta1.StorageBucket) { b.Spec.Probe.FailureThreshold = 1 })
		s.probe(failed(reason))
		all = append(all, s.b)
	}
	return all
}

// The table has the kstatus result that deployment tools derive from each reason of Ready. Failed
// needs a user; the operator retries what is InProgress.
func TestKstatus(t *testing.T) {
	reconcilertest.CheckKstatus(t, reportedStatuses(t), map[string]status.Status{
		"False CredentialsNotFound":   status.FailedStatus,
		"False InvalidCredentials":    status.FailedStatus,
		"False EndpointForbidden":     status.FailedStatus,
		"False BucketConflict":        status.FailedStatus,
		"False BucketNotFound":        status.InProgressStatus,
		"False BucketNotEmpty":        status.InProgressStatus,
		"False AccessDenied":          status.InProgressStatus,
		"False RegionMismatch":        status.InProgressStatus,
		"False EndpointUnreachable":   status.InProgressStatus,
		"False TLSVerificationFailed": status.InProgressStatus,
		"False ProbeTimeout":          status.InProgressStatus,
		"False ServerError":           status.InProgressStatus,
		"False Throttled":             status.InProgressStatus,
		"Unknown ProbePending":        status.InProgressStatus,
		"Unknown Creating":            status.InProgressStatus,
		"True ProbeSucceeded":         status.CurrentStatus,
		reconcilertest.BeingDeleted:   status.TerminatingStatus,
	})
}

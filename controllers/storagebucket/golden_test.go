// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/prometheus/client_golang/prometheus"
	"gotest.tools/v3/golden"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// recording is a fixture that records requests to the endpoint, writes and reports as lines.
type recording struct {
	*fixture
	reconcilertest.Recording
}

func newRecording(t *testing.T, s scenario) *recording {
	t.Helper()
	r := &recording{fixture: newFixture(t, s)}
	r.Recording = reconcilertest.Recording{T: t, OnRequest: func(q reconcilertest.Request) error {
		if q.Verb == "patch" {
			r.Line("  patch %s", q.Body)
		}
		return nil
	}}
	r.onResponse = func(request string, status int) {
		answer := fmt.Sprintf(" %s: %d", request, status)
		if last := len(r.Lines) - 1; strings.HasPrefix(r.Lines[last], "  S3 ") {
			r.Lines[last] += "," + answer
		} else {
			r.Line("  S3%s", answer)
		}
		r.clock.SetTime(r.clock.Now().Add(time.Millisecond))
	}
	r.Client, r.Live, r.Recorder = r.Intercept(r.stored, true), r.Intercept(r.stored, false), &r.Recording
	return r
}

// run reconciles once a minute, or twice without a number, and returns the record. No scenario keeps the state of a
// deleted bucket, or discloses a key of the Secret.
func (r *recording) run(s scenario) string {
	r.t.Helper()
	began := r.clock.Now()
	r.Run(r.Reconciler, bReq, r.clock, 67*time.Second, max(s.reconciles, 2), func(i int) {
		if change := s.before[i]; change != nil {
			change(r.fixture)
		}
	})
	r.Series(r.metrics.probes, r.metrics.duration, r.metrics.up, r.metrics.retained)
	r.Lines = slices.DeleteFunc(r.Lines, func(line string) bool { return strings.Contains(line, "_bucket{") })
	text := r.Since(began)
	r.reconcile() // a deleted bucket has one more
	leftover := r.read().Name == "" && len(r.probes.known) > 0
	disclosed := strings.Contains(text, sentinel)
	if leftover || disclosed {
		r.t.Errorf("the state of a deleted bucket: %t; keys: %t", leftover, disclosed)
	}
	return text
}

// TestReconcileGolden compares the requests to the endpoint, the writes and the reports of each scenario with a golden
// file. The table has the kstatus result that deployment tools derive from each reason of Ready. Failed needs a user;
// the operator retries what is InProgress.
func TestReconcileGolden(t *testing.T) {
	var reported []client.Object
	reconcilertest.Golden(t, scenarios(), func(s scenario) string {
		r := newRecording(t, s)
		defer func() { reported = append(reported, r.Reported...) }()
		return r.run(s)
	})
	for _, reason := range allReasons[1:] {
		b := bucket("b")
		b.Status = summarized(b, probe{failures: 3}, "", failed(reason), epoch)
		reported = append(reported, b)
	}
	reconcilertest.CheckKstatus(t, reported, map[string]status.Status{
		"False CredentialsNotFound":   status.FailedStatus,
		"False InvalidCredentials":    status.FailedStatus,
		"False EndpointForbidden":     status.FailedStatus,
		"False BucketConflict":        status.FailedStatus,
		"False TagsNotSupported":      status.FailedStatus,
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
		" ":                           status.InProgressStatus, // paused before its first probe
		reconcilertest.BeingDeleted:   status.TerminatingStatus,
	})
}

// Dashboards and alerts depend on the names, help texts, labels and buckets. All reasons of a
// retained bucket are exposed from the start.
func TestMetricsGolden(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	m.countProbe(bucket("b"), &observation{verdict: good, took: 1500 * time.Millisecond}, good)
	m.countProbe(bucket("c"), &observation{verdict: bad, took: 0}, bad)
	golden.Assert(t, reconcilertest.Exposed(t, registry), "metrics.txt")
}

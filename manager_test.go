package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/runners/drain"
)

// namedLock is a lock that has an identity and holds nothing.
type namedLock struct{ resourcelock.Interface }

func (namedLock) Identity() string { return "manager-0_uuid" }

func shippedOptions(t *testing.T) ctrl.Options {
	t.Helper()
	o, err := parseOptions(shippedArguments(t, "default"), inPod)
	if err != nil {
		t.Fatal(err)
	}
	return managerOptions(o, namedLock{}, nil, drain.New(o.shutdownDelay, clock.RealClock{}))
}

// The manager as it ships. Suites set times of their own, so that only this test sees
// these values.
func TestManagerAsItShips(t *testing.T) {
	m := shippedOptions(t)
	type shipped struct {
		Elects, ReleasesLease, WarmsUp, RecoversPanics bool
		LeaseName, LeaseNamespace                      string
		Lease, Renew, Retry, Shutdown, Reconciliation  time.Duration
		Metrics, Probes                                string
		AuthorizesMetrics                              bool
	}
	want := shipped{
		Elects: true, ReleasesLease: true, WarmsUp: true, RecoversPanics: true,
		LeaseName: "manager.leasehold.dev", LeaseNamespace: "system",
		Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second,
		Shutdown: 30 * time.Second, Reconciliation: 150 * time.Second,
		Metrics: ":8443", Probes: ":8081", AuthorizesMetrics: true,
	}
	got := shipped{
		Elects: m.LeaderElection, ReleasesLease: m.LeaderElectionReleaseOnCancel,
		WarmsUp: ptr.Deref(m.Controller.EnableWarmup, false), RecoversPanics: ptr.Deref(m.Controller.RecoverPanic, false),
		LeaseName: m.LeaderElectionID, LeaseNamespace: m.LeaderElectionNamespace,
		Lease: *m.LeaseDuration, Renew: *m.RenewDeadline, Retry: *m.RetryPeriod,
		Shutdown: *m.GracefulShutdownTimeout, Reconciliation: m.Controller.ReconciliationTimeout,
		Metrics: m.Metrics.BindAddress, Probes: m.HealthProbeBindAddress,
		AuthorizesMetrics: m.Metrics.SecureServing && m.Metrics.FilterProvider != nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the manager (-want +got):\n%s", diff)
	}
	if m.LeaderElectionResourceLockInterface != (namedLock{}) {
		t.Error("the election does not use the lock with a client of its own")
	}
	if m.Controller.NeedLeaderElection != nil || m.NewClient != nil {
		t.Error("an option is set that lets a standby write")
	}
}

// Whatever a runnable or a controller logs names the replica as the Lease does.
func TestLogsNameTheReplica(t *testing.T) {
	before := ctrl.Log
	t.Cleanup(func() { ctrl.Log = before })
	var written bytes.Buffer
	ctrl.Log = funcr.New(func(_, args string) { written.WriteString(args + "\n") }, funcr.Options{})
	m := shippedOptions(t)
	ctx := m.BaseContext()
	log.FromContext(ctx).Info("of a runnable")
	m.Logger.Info("of a controller")
	for line := range strings.Lines(written.String()) {
		if !strings.Contains(line, `"replica"="manager-0_uuid"`) {
			t.Errorf("the line does not name the replica: %s", line)
		}
	}
	if strings.Count(written.String(), "\n") != 2 {
		t.Errorf("logged %q, want two lines", written.String())
	}
	if ctx.Done() != nil || context.Cause(ctx) != nil {
		t.Error("the base context ends, and would end runnables before the manager stops them")
	}
}

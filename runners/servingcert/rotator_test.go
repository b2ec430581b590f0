// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// runnables records the runnables that are added to a manager.
type runnables struct {
	manager.Manager
	added []manager.Runnable
}

func (r *runnables) Add(runnable manager.Runnable) error {
	r.added = append(r.added, runnable)
	return r.Manager.Add(runnable)
}

// Two replicas that rotate at once overwrite each other's CA.
func TestAddRotator_runs_nothing_on_standby(t *testing.T) {
	mgr, source := newManager(t, newCluster(t, &corev1.Secret{}))
	recorded := &runnables{Manager: mgr}
	if err := AddRotator(recorded, source, RotatorOptions{
		Client:  mgr.GetClient(),
		Service: "webhooks", Validating: "validating", Mutating: "mutating",
		ControllerName: fmt.Sprintf("standby-%d", runs.Add(1)),
	}); err != nil {
		t.Fatal(err)
	}
	if len(recorded.added) == 0 {
		t.Fatal("nothing was added to the manager")
	}
	for _, runnable := range recorded.added {
		elected, ok := runnable.(manager.LeaderElectionRunnable)
		if !ok || !elected.NeedLeaderElection() {
			t.Errorf("%T runs on a standby", runnable)
		}
	}
}

// deaf is a runnable that ignores its context, as the rotator does while it repeats a call.
type deaf struct{ release chan struct{} }

func (d deaf) Start(context.Context) error { <-d.release; return nil }

// A replica that begins to lead while it stops must not wait for the rotator.
func TestRotatorEndsWithTheContext(t *testing.T) {
	d := deaf{make(chan struct{})}
	defer close(d.release)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (ending{d}).Start(ctx); err != nil {
		t.Errorf("Start() = %v", err)
	}
	failing := ending{manager.RunnableFunc(func(context.Context) error { return errors.New("it failed") })}
	if err := failing.Start(t.Context()); err == nil {
		t.Error("an error of the rotator is lost")
	}
}

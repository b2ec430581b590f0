// SPDX-License-Identifier: Apache-2.0

package runners_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"leasehold.dev/runners"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTicksOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		run, ticks := runners.Ticks(10*time.Second, clock.RealClock{})
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()

		began := time.Now()
		for i := 1; i <= 3; i++ {
			<-ticks
			if got, want := time.Since(began), time.Duration(i)*10*time.Second; got != want {
				t.Errorf("tick %d came after %s, want %s", i, got, want)
			}
		}
		cancel()
		wantEnd(t, done)
	})
}

func TestTicksMergeWithoutReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		run, ticks := runners.Ticks(time.Second, clock.RealClock{})
		go func() { _ = run(ctx) }()

		<-time.After(time.Hour)
		synctest.Wait()
		if got := len(ticks); got != 1 {
			t.Fatalf("%d ticks wait after an hour without a reader, want 1", got)
		}
		<-ticks
		began := time.Now()
		<-ticks
		if got := time.Since(began); got > time.Second {
			t.Errorf("the next tick came after %s, want at most one interval", got)
		}
	})
}

func TestTicksStopWithFullChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		run, ticks := runners.Ticks(time.Second, clock.RealClock{})
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()

		<-time.After(5 * time.Second)
		synctest.Wait()
		if len(ticks) == 0 {
			t.Fatal("the channel is empty, want it full before the stop")
		}
		cancel()
		wantEnd(t, done)
	})
}

// wantEnd fails unless the ticker ends without an error within a second of its stop.
func wantEnd(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the ticker ended with %v, want nil", err)
		}
	case <-time.After(time.Second):
		t.Fatal("the ticker still runs a second after its stop")
	}
}

// The manager runs runnables without a choice of their own only on the leader.
func TestTicksRunOnlyOnTheLeader(t *testing.T) {
	run, _ := runners.Ticks(time.Second, clock.RealClock{})
	if _, chooses := any(run).(manager.LeaderElectionRunnable); chooses {
		t.Error("the runnable chooses where it runs, want the manager's default")
	}
}

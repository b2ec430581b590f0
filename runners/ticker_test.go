package runners_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"leasehold.dev/runners"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTickerTicksOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ticker := runners.NewTicker(10*time.Second, clock.RealClock{})
		done := make(chan error, 1)
		go func() { done <- ticker.Start(ctx) }()

		began := time.Now()
		for i := 1; i <= 3; i++ {
			<-ticker.Events()
			if got, want := time.Since(began), time.Duration(i)*10*time.Second; got != want {
				t.Errorf("tick %d came after %s, want %s", i, got, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start returned %v, want nil", err)
		}
	})
}

func TestTickerMergesTicksNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ticker := runners.NewTicker(time.Second, clock.RealClock{})
		go func() { _ = ticker.Start(ctx) }()

		<-time.After(time.Hour)
		synctest.Wait()
		if got := len(ticker.Events()); got != 1 {
			t.Fatalf("%d ticks wait after an hour without a reader, want 1", got)
		}
		<-ticker.Events()
		began := time.Now()
		<-ticker.Events()
		if got := time.Since(began); got > time.Second {
			t.Errorf("the next tick came after %s, want at most one interval", got)
		}
	})
}

func TestTickerStopsWithAFullChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ticker := runners.NewTicker(time.Second, clock.RealClock{})
		done := make(chan error, 1)
		go func() { done <- ticker.Start(ctx) }()

		<-time.After(5 * time.Second)
		synctest.Wait()
		if len(ticker.Events()) == 0 {
			t.Fatal("the channel is empty, want it full before the stop")
		}
		cancel()
		stopped := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Start returned %v, want nil", err)
		}
		if took := time.Since(stopped); took >= time.Second {
			t.Errorf("Start returned %s after the stop, want under 1 s", took)
		}
	})
}

func TestTickerRunsOnTheLeaderOnly(t *testing.T) {
	if !runners.NewTicker(time.Second, clock.RealClock{}).NeedLeaderElection() {
		t.Error("NeedLeaderElection() = false, want true")
	}
}

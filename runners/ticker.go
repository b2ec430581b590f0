package runners

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

var (
	_ manager.Runnable               = (*Ticker)(nil)
	_ manager.LeaderElectionRunnable = (*Ticker)(nil)
)

// Ticker turns the passing of time into events for a source.Channel, so that a
// controller can look from time to time at things no watch reports. Only the
// leader ticks. The events are empty: what is due is the reader's decision.
type Ticker struct {
	interval time.Duration
	clock    clock.WithTicker
	events   chan event.GenericEvent
}

// NewTicker returns a Ticker that ticks each interval, which must be positive.
func NewTicker(interval time.Duration, c clock.WithTicker) *Ticker {
	return &Ticker{
		interval: interval,
		clock:    c,
		// Room for one: a tick nobody has taken yet also stands for those after it.
		events: make(chan event.GenericEvent, 1),
	}
}

// Events is where the ticks arrive. It is never closed: a reader leaves with
// its own context.
func (t *Ticker) Events() <-chan event.GenericEvent { return t.events }

// NeedLeaderElection reports true: a standby that ticks would act.
func (t *Ticker) NeedLeaderElection() bool { return true }

// Start ticks until ctx is done. It never waits for a reader, so a full channel
// cannot hold up the shutdown.
func (t *Ticker) Start(ctx context.Context) error {
	ticker := t.clock.NewTicker(t.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			select {
			case t.events <- event.GenericEvent{}:
			default:
			}
		}
	}
}

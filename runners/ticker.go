package runners

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Ticks returns a runnable that sends an event each interval, which must be positive, and
// the channel for a source.Channel that receives them. A controller looks by it from time
// to time at things no watch reports. The events are empty: what is due is the reader's
// decision. The channel is never closed: a reader leaves with its own context.
//
// Only the leader ticks: the manager starts a function with the leader's runnables.
func Ticks(interval time.Duration, c clock.WithTicker) (manager.RunnableFunc, <-chan event.GenericEvent) {
	// Room for one: a tick that no reader has taken yet also stands for those after it.
	events := make(chan event.GenericEvent, 1)
	return func(ctx context.Context) error {
		ticker := c.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C():
				// Waiting for a reader would hold up the shutdown.
				select {
				case events <- event.GenericEvent{}:
				default:
				}
			}
		}
	}, events
}

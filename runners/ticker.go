// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Ticks returns a runnable that sends an event each interval, and the channel of these events for a
// source.Channel. The interval must be positive. Controllers use it for checks without a watch. The
// events are empty: the receiver decides what is due. The channel is never closed; receivers end
// with their own context.
//
// It runs only on the leader, because the manager runs functions with the leader's runnables.
func Ticks(interval time.Duration, c clock.WithTicker) (manager.RunnableFunc, <-chan event.GenericEvent) {
	// The capacity is one: a tick that was not received yet includes later ones.
	events := make(chan event.GenericEvent, 1)
	return func(ctx context.Context) error {
		ticker := c.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C():
				// Blocking here would delay the shutdown.
				select {
				case events <- event.GenericEvent{}:
				default:
				}
			}
		}
	}, events
}

package fairqueue

import (
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// SetClock sets the clock of a queue that is not in use yet.
func SetClock(q priorityqueue.PriorityQueue[reconcile.Request], c clock.WithDelayedExecution) {
	q.(*queue).clock = c
}

// Flows returns the number of flows whose usage a queue has.
func Flows(q priorityqueue.PriorityQueue[reconcile.Request]) int {
	own := q.(*queue)
	own.mu.Lock()
	defer own.mu.Unlock()
	return len(own.turns.foreground.used) + len(own.turns.background.used)
}

package health_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	prometheus "github.com/prometheus/client_model/go"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/health"
)

// queues gives each queue of the process its own metrics.
var queues atomic.Int32

// An observed queue keeps the controller's name in the metrics and the priorities. The backoff is
// that of the fair queue, also with the limiter that controller-runtime always sets.
func TestObservedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := fmt.Sprintf("observed-%d", queues.Add(1))
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Minute, time.Hour)
		queue := health.NewProgress(stuckAfter, clock.RealClock{}).
			NewQueue(name, limiter).(priorityqueue.PriorityQueue[reconcile.Request])
		defer queue.ShutDown()
		low := -100
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: &low, RateLimited: true}, request("a"))
		began := time.Now()
		if item, priority, _ := queue.GetWithPriority(); item != request("a") || priority != low ||
			time.Since(began) != 5*time.Millisecond {
			t.Errorf("it gave %v with priority %d after %s, want a with %d after 5ms", item, priority, time.Since(began), low)
		}
		queue.Done(request("a"))
		families, err := metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if slices.ContainsFunc(m.GetLabel(),
					func(l *prometheus.LabelPair) bool { return l.GetName() == "name" && l.GetValue() == name }) {
					counted[family.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		want := map[string]float64{
			"workqueue_adds_total": 1, "workqueue_retries_total": 1, "workqueue_depth": 0,
			"workqueue_longest_running_processor_seconds": 0,
			"workqueue_unfinished_work_seconds":           0, "workqueue_queue_duration_seconds": 1,
			"workqueue_work_duration_seconds": 1,
		}
		if diff := cmp.Diff(want, counted); diff != "" {
			t.Errorf("metrics of the queue (-want +got):\n%s", diff)
		}
	})
}

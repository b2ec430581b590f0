// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

const (
	// refresh is the maximum age of an unchanged status, from which the next leader reads the time of
	// the last probe. It bounds the writes of a healthy bucket to twelve per hour.
	refresh = 5 * time.Minute
	// firstRetry is the pause after the first probe that lacked a Secret or a ConfigMap.
	firstRetry = 5 * time.Second
	// maxPause bounds the pause between two probes that time out, unless the period is longer.
	maxPause = 10 * time.Minute
)

// probe is what this process knows of the last probe of a bucket. It is more recent than the status,
// which is not written at each probe.
type probe struct {
	uid        types.UID
	generation int64 // of the spec that was probed
	// ended is the end of the last probe of this process; zero if there was none.
	ended, succeeded time.Time
	// failures, timeouts and lacking count the last consecutive probes that failed, that timed out,
	// and that lacked a Secret or a ConfigMap.
	failures, timeouts, lacking int32
	seen                        time.Time // the first reconcile of this process
	retrying                    bool      // after an error; ticks must not bypass the queue's backoff
}

// due returns the time of the next probe. A bucket or a spec that was never probed, a resumed one and
// a requested probe are due immediately. After a change of leader the first probes are spread over the period
// or over refresh, whichever is shorter. Otherwise a restart would probe all buckets at the same time.
func (p probe) due(b *v1beta1.StorageBucket) time.Time {
	conditions, pause, request := b.Status.Conditions, p.pause(b), reconciler.RequestedAt(b)
	switch {
	case p.retrying, request != "" && request != b.Status.LastHandledReconcileAt,
		reporting.FindCondition(conditions, v1beta1.ConditionPaused).Type != "":
		return time.Time{}
	case !p.ended.IsZero() && p.generation == b.Generation:
		return reconciler.NextDue(p.ended, pause, b.UID)
	case b.Status.LastProbeTime == nil, b.Status.ObservedGeneration != b.Generation,
		reporting.FindCondition(conditions, v1beta1.ConditionReady).Status == metav1.ConditionUnknown:
		return time.Time{}
	}
	const rounding = time.Second // the status has whole seconds, rounded down
	last := b.Status.LastProbeTime.Add(rounding)
	switch next := reconciler.NextDue(last, pause, b.UID); {
	case last.After(p.seen.Add(period(b))): // the time of a wrong clock
	case pause < refresh && !next.Add(-rounding).After(p.seen) && last.Add(refresh+pause).After(p.seen):
		// The previous leader may have probed until now: it writes an unchanged result once per refresh.
		return reconciler.NextDue(p.seen, pause, b.UID).Add(reconciler.Offset(min(pause, refresh-pause), b.UID))
	case next.After(p.seen):
		return next
	}
	return p.seen.Add(reconciler.Offset(min(pause, refresh), b.UID))
}

func period(b *v1beta1.StorageBucket) time.Duration {
	return time.Duration(b.Spec.Probe.PeriodSeconds) * time.Second
}

// pause returns the time to the next probe. It is shorter than the period if a Secret or a ConfigMap
// is missing, and longer if the endpoint times out beyond the failure threshold.
func (p probe) pause(b *v1beta1.StorageBucket) time.Duration {
	every := period(b)
	if p.lacking > 0 {
		return min(every, doubled(firstRetry, p.lacking-1))
	}
	return max(every, min(maxPause, doubled(every, p.timeouts-b.Spec.Probe.FailureThreshold)))
}

func doubled(d time.Duration, times int32) time.Duration {
	return d << min(max(times, 0), 10) // 2^10 times a period of 24 h does not overflow
}

// after returns what is known after a probe that ended now.
func (p probe) after(generation int64, lacking bool, result s3.Verdict, now time.Time) probe {
	counted := func(before int32, again bool) int32 {
		switch {
		case !again:
			return 0
		case p.generation != generation:
			return 1 // the others were probes of another spec
		}
		return before + 1
	}
	p.failures = counted(p.failures, !result.OK())
	p.timeouts = counted(p.timeouts, result.Reason == v1beta1.ReasonProbeTimeout)
	p.lacking = counted(p.lacking, lacking)
	p.ended, p.generation, p.retrying = now, generation, false
	if result.OK() {
		p.succeeded = now
	}
	return p
}

// probes holds one probe for each bucket. The zero value is ready for use.
type probes struct {
	mu    sync.Mutex
	known map[client.ObjectKey]probe
	// orphaned has the UIDs of StorageBuckets that were deleted with --cascade=orphan.
	orphaned sync.Map
}

// of returns the probe of the bucket. The first one is derived from the status.
func (ps *probes) of(b *v1beta1.StorageBucket, now time.Time) probe {
	ps.mu.Lock()
	known, ok := ps.known[client.ObjectKeyFromObject(b)]
	ps.mu.Unlock()
	if ok && known.uid == b.UID {
		return known
	}
	first := probe{uid: b.UID, seen: now, generation: b.Status.ObservedGeneration, failures: b.Status.ConsecutiveFailures}
	if b.Status.LastSuccessTime != nil {
		first.succeeded = b.Status.LastSuccessTime.Time
	}
	// A missing Secret or ConfigMap has one of these reasons. For other failures it costs an early probe.
	ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	if ready.Status == metav1.ConditionFalse && (ready.Reason == v1beta1.ReasonCredentialsNotFound ||
		ready.Reason == v1beta1.ReasonTLSVerificationFailed) {
		first.lacking = 1
	}
	ps.store(b, first)
	return first
}

// isDue reports whether a tick has to queue the bucket. The queue has a new one by its event, and one
// with an error by its backoff.
func (ps *probes) isDue(b *v1beta1.StorageBucket, now time.Time) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	known, ok := ps.known[client.ObjectKeyFromObject(b)]
	return ok && known.uid == b.UID && !known.retrying && !known.due(b).After(now)
}

func (ps *probes) store(b *v1beta1.StorageBucket, p probe) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.known == nil {
		ps.known = map[client.ObjectKey]probe{}
	}
	ps.known[client.ObjectKeyFromObject(b)] = p
}

func (ps *probes) forget(key client.ObjectKey) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.known, key)
}

// retry leaves a bucket to the backoff of the queue, after an error.
func (ps *probes) retry(b *v1beta1.StorageBucket, now time.Time) {
	known := ps.of(b, now)
	known.retrying = true
	ps.store(b, known)
}

// isOrphaned reports whether a StorageBucket was deleted with --cascade=orphan.
func (ps *probes) isOrphaned(b *v1beta1.StorageBucket) bool {
	_, remembered := ps.orphaned.Load(b.UID)
	return remembered || controllerutil.ContainsFinalizer(b, metav1.FinalizerOrphanDependents)
}

// orphans remembers deletions with --cascade=orphan until the object is gone: the garbage collector removes
// their finalizer within milliseconds.
func (r *Reconciler) orphans() predicate.Predicate {
	remember := func(o client.Object) bool {
		if !o.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(o, metav1.FinalizerOrphanDependents) {
			r.probes.orphaned.Store(o.GetUID(), true)
		}
		return true
	}
	events := predicate.NewPredicateFuncs(remember)
	events.DeleteFunc = func(e event.DeleteEvent) bool {
		r.probes.orphaned.Delete(e.Object.GetUID())
		return true
	}
	return events
}

// due returns the buckets whose probe is due. A terminating one queues itself again.
func (r *Reconciler) due(ctx context.Context, _ client.Object) []reconcile.Request {
	now := r.Clock.Now()
	return reconciler.Requests(ctx, r.Client, &v1beta1.StorageBucketList{}, func(o client.Object) bool {
		return o.GetDeletionTimestamp().IsZero() && !reconciler.Paused(o) && r.probes.isDue(o.(*v1beta1.StorageBucket), now)
	})
}

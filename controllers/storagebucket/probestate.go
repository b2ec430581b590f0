package storagebucket

import (
	"math"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

const (
	// refresh is the maximum age of an unchanged status. It bounds the writes of a healthy
	// bucket to twelve per hour. The next leader reads the time of the last probe from the
	// status.
	refresh = 5 * time.Minute
	// firstRetry is the pause after the first probe that lacked a Secret or a ConfigMap. It
	// doubles with each consecutive one, up to the period.
	firstRetry = 5 * time.Second
	// maxPause bounds the pause between two probes that time out, unless the period is
	// longer.
	maxPause = 10 * time.Minute
)

// perhapsLacking lists the reasons of probes that lacked a Secret or a ConfigMap. Other
// failures have these reasons too, so the status alone does not prove it.
var perhapsLacking = []string{v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonTLSVerificationFailed}

// probeState is this process's state of a bucket. It is more recent than the status, which
// is not written at each probe.
type probeState struct {
	uid types.UID
	// generation is the generation of the spec that was probed last.
	generation int64
	// probed is the end of the last probe of this process; zero if there was none.
	probed    time.Time
	succeeded time.Time
	failures  int32
	// timeouts and lacking count the last consecutive probes that timed out, and those that
	// lacked a Secret or a ConfigMap.
	timeouts, lacking int32
	// slow is the generation under which the last visit took longer than soon; else zero.
	slow int64
	// seen is the time of this process's first reconcile of the bucket.
	seen time.Time
	// unwritten is the report of the last probe if its status write failed; nil otherwise.
	// It is written before the next request to the endpoint.
	unwritten *report
	// failed is the time of the last internal error that prevented a probe; zero after a
	// probe.
	failed time.Time
}

// report is the result of a probe and of the actions after it.
type report struct {
	found observation
	acted action
}

// due returns the time of the next probe. A bucket or a spec that was never probed is due
// at once. Probes that became due while no leader ran are spread over the period or over
// refresh, whichever is shorter. Otherwise a restart would probe all buckets at once.
func (s probeState) due(b *v1beta1.StorageBucket) time.Time {
	pause := s.pause(b)
	switch {
	case !s.probed.IsZero() && s.generation == b.Generation:
		return reconciler.NextDue(s.probed, pause, b.UID)
	case b.Status.LastProbeTime == nil || b.Status.ObservedGeneration != b.Generation:
		return time.Time{}
	}
	// The status has whole seconds, rounded down. A time in the future is ignored, since a
	// wrong clock or an edit caused it.
	last := b.Status.LastProbeTime.Add(time.Second)
	if next := reconciler.NextDue(last, pause, b.UID); next.After(s.seen) && !last.After(s.seen.Add(period(b))) {
		return next
	}
	return s.seen.Add(reconciler.Offset(min(pause, refresh), b.UID))
}

// pause returns the time between the last probe and the next. It is shorter than the period
// if a Secret or a ConfigMap is missing, and longer if the endpoint still times out beyond
// the failure threshold.
func (s probeState) pause(b *v1beta1.StorageBucket) time.Duration {
	every := period(b)
	if s.lacking > 0 {
		return min(every, doubled(firstRetry, s.lacking-1))
	}
	return max(every, min(maxPause, doubled(every, s.timeouts-b.Spec.Probe.FailureThreshold)))
}

// doubled returns d, doubled the given number of times.
func doubled(d time.Duration, times int32) time.Duration {
	return d << min(max(times, 0), 10) // 2^10 times a period of 24 h does not overflow
}

// after returns the state after a probe that ended now.
func (s probeState) after(found observation, result s3.Verdict, generation int64, now time.Time) probeState {
	if s.generation != generation {
		s.failures, s.timeouts, s.lacking = 0, 0, 0 // they counted probes of another spec
	}
	s.probed, s.generation, s.failed = now, generation, time.Time{}
	if result.OK() {
		s.succeeded = now
	}
	s.failures = counted(s.failures, !result.OK())
	s.timeouts = counted(s.timeouts, result.Reason == v1beta1.ReasonProbeTimeout)
	s.lacking = counted(s.lacking, found.lacking)
	return s
}

// counted returns before+1 if the property occurred again, and zero otherwise.
func counted(before int32, again bool) int32 {
	if !again {
		return 0
	}
	return min(before, math.MaxInt32-1) + 1
}

// probeStates holds one probeState for each bucket. The zero value is ready for use.
type probeStates struct {
	mu    sync.Mutex
	known map[client.ObjectKey]probeState
	// triggered has the buckets that are due at once, until their next probe begins. It is not
	// part of probeState, which a running probe replaces.
	triggered map[client.ObjectKey]struct{}
}

// trigger makes a bucket due at once.
func (p *probeStates) trigger(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.triggered == nil {
		p.triggered = map[client.ObjectKey]struct{}{}
	}
	p.triggered[key] = struct{}{}
}

// isTriggered reports whether a bucket is due at once.
func (p *probeStates) isTriggered(b *v1beta1.StorageBucket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, triggered := p.triggered[client.ObjectKeyFromObject(b)]
	return triggered
}

// begin ends the trigger of a bucket whose probe begins. A later trigger needs another probe.
func (p *probeStates) begin(b *v1beta1.StorageBucket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.triggered, client.ObjectKeyFromObject(b))
}

// of returns the state of the bucket. The initial state is derived from the status.
func (p *probeStates) of(b *v1beta1.StorageBucket, now time.Time) probeState {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := client.ObjectKeyFromObject(b)
	if known, ok := p.known[key]; ok && known.uid == b.UID {
		return known
	}
	first := probeState{uid: b.UID, seen: now, generation: b.Status.ObservedGeneration,
		failures: b.Status.ConsecutiveFailures}
	if b.Status.LastSuccessTime != nil {
		first.succeeded = b.Status.LastSuccessTime.Time
	}
	ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	if ready.Status == metav1.ConditionFalse && slices.Contains(perhapsLacking, ready.Reason) {
		first.lacking = 1
	}
	if p.known == nil {
		p.known = map[client.ObjectKey]probeState{}
	}
	p.known[key] = first
	return first
}

// when returns the time at which the bucket is due; met is false for an unknown bucket.
func (p *probeStates) when(b *v1beta1.StorageBucket) (due time.Time, met bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[client.ObjectKeyFromObject(b)]
	if !ok || known.uid != b.UID {
		return time.Time{}, false
	}
	due = known.due(b)
	// The queue retries with exponential backoff. A tick must not bypass it.
	if again := known.failed.Add(period(b)); !known.failed.IsZero() && again.After(due) {
		due = again
	}
	return due, true
}

func (p *probeStates) store(b *v1beta1.StorageBucket, known probeState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[client.ObjectKeyFromObject(b)] = known
}

func (p *probeStates) forget(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
	delete(p.triggered, key)
}

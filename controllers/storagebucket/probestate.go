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
	// refresh is how old a status may grow though nothing happened. It bounds the
	// writes of a healthy bucket to twelve an hour, and shows the next leader when
	// the bucket was probed, not to the second but well enough.
	refresh = 5 * time.Minute
	// firstRetry is the pause after the first probe that lacked a Secret or a
	// ConfigMap. It doubles with each further one, up to the period.
	firstRetry = 5 * time.Second
	// maxPause is the longest pause between two probes that time out, unless the
	// period is longer.
	maxPause = 10 * time.Minute
	// soon is how fast an endpoint answers that may occupy more than a few workers.
	soon = 2 * time.Second
)

// perhapsLacking are the reasons of the probes that lacked something, and of some
// others. The status does not tell them apart.
var perhapsLacking = []string{v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonTLSVerificationFailed}

// probeState is what this process knows of a bucket beyond its status, which is not
// written at each probe.
type probeState struct {
	uid types.UID
	// generation is that of the last probe.
	generation int64
	// probed is when the last probe of this process ended; zero if there was none.
	probed    time.Time
	succeeded time.Time
	failures  int32
	// timeouts and lacking count the last probes in a row that timed out, and those
	// that lacked something that the spec refers to.
	timeouts, lacking int32
	// last is how fast the endpoint answered the last request.
	last outcome
	// seen is when this process first came across the bucket.
	seen time.Time
	// unwritten is the report of the last probe while its status could not be
	// written; nil if there is none. It is written before anything is sent again.
	unwritten *report
	// failed is when a failure of our own last prevented a probe; zero after a probe.
	failed time.Time
}

// report is what a reconcile has found and done.
type report struct {
	found observation
	acted action
}

// due is when the bucket has to be probed next. A bucket or a spec that was never
// probed is due at once. What came due while the operator was down or changed its
// leader is spread over a period, or over refresh where that is shorter: a restart
// is no reason to probe everything in one instant.
func (s probeState) due(b *v1beta1.StorageBucket) time.Time {
	pause := s.pause(b)
	switch {
	case !s.probed.IsZero() && s.generation == b.Generation:
		return reconciler.NextDue(s.probed, pause, b.UID)
	case b.Status.LastProbeTime == nil || b.Status.ObservedGeneration != b.Generation:
		return time.Time{}
	}
	// The status has whole seconds, rounded down. A time in the future comes from a
	// wrong clock or from an edit, and means nothing.
	last := b.Status.LastProbeTime.Add(time.Second)
	if next := reconciler.NextDue(last, pause, b.UID); next.After(s.seen) && !last.After(s.seen.Add(period(b))) {
		return next
	}
	return s.seen.Add(reconciler.Offset(min(pause, refresh), b.UID))
}

// pause is how long after one probe the next is due: the period, unless the last
// probes lacked a Secret or a ConfigMap, which may exist soon, or an endpoint goes
// on timing out beyond the failure threshold.
func (s probeState) pause(b *v1beta1.StorageBucket) time.Duration {
	every := period(b)
	if s.lacking > 0 {
		return min(every, doubled(firstRetry, s.lacking-1))
	}
	return max(every, min(maxPause, doubled(every, s.timeouts-b.Spec.Probe.FailureThreshold)))
}

// doubled is a duration, doubled so many times.
func doubled(d time.Duration, times int32) time.Duration {
	return d << min(max(times, 0), 10) // a period of 24 h has room for that
}

// after is the state after a probe that ended now.
func (s probeState) after(found observation, result s3.Verdict, generation int64, now time.Time) probeState {
	if s.generation != generation {
		s.failures, s.timeouts, s.lacking = 0, 0, 0 // they were about another spec
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

// counted is the length of a run of probes with something in common.
func counted(before int32, again bool) int32 {
	switch {
	case !again:
		return 0
	case before == math.MaxInt32:
		return before
	}
	return before + 1
}

// shownBy is what a probe has shown of the endpoint.
func shownBy(found observation, result s3.Verdict) outcome {
	switch {
	case found.took == 0:
		return outcomeUnknown
	case found.took > soon || result.Reason == v1beta1.ReasonProbeTimeout:
		return outcomeSlow
	}
	return outcomePrompt
}

// probeStates holds one probeState for each bucket. The zero value is ready for use.
type probeStates struct {
	mu    sync.Mutex
	known map[client.ObjectKey]probeState
}

// of returns what is known of the bucket. What is met for the first time begins
// with what its status says.
func (p *probeStates) of(b *v1beta1.StorageBucket, now time.Time) probeState {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := client.ObjectKeyFromObject(b)
	if known, ok := p.known[key]; ok && known.uid == b.UID {
		return known
	}
	first := probeState{uid: b.UID, seen: now, generation: b.Status.ObservedGeneration, failures: b.Status.ConsecutiveFailures}
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

// when is when a bucket that was met already is due.
func (p *probeStates) when(b *v1beta1.StorageBucket) (due time.Time, met bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[client.ObjectKeyFromObject(b)]
	if !ok || known.uid != b.UID {
		return time.Time{}, false
	}
	due = known.due(b)
	// The queue tries again, later each time; a tick must not be faster.
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
}

package storagebucket

import (
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/schedule"
	"leasehold.dev/controllers/storagebucket/s3"
)

// refresh is how old a status may grow though nothing happened. It bounds the
// writes of a healthy bucket to twelve an hour, and tells the next leader when
// the bucket was probed, not to the second but well enough.
const refresh = 5 * time.Minute

// look is what this process knows of a bucket beyond its status, which is not
// written at each probe.
type look struct {
	uid types.UID
	// generation is that of the last probe.
	generation int64
	// probed is when the last probe of this process ended; zero if there was none.
	probed    time.Time
	succeeded time.Time
	failures  int32
	// seen is when this process first came across the bucket.
	seen time.Time
	// unwritten is the report of the last probe while its status could not be
	// written; nil if there is none. It is written before anything is asked again.
	unwritten *report
	// hindered is when something of our own last kept the bucket from being
	// probed; zero once it was.
	hindered time.Time
}

// report is what a pass has to tell.
type report struct {
	found observation
	acted action
}

// due is when the bucket is to be probed next. A bucket or a spec that was never
// probed is due at once. What came due while nobody looked, because the operator
// was down or changed its leader, is spread over a period, or over refresh where
// that is shorter: a restart is no reason to probe everything in one instant.
func (l look) due(b *v1beta1.StorageBucket) time.Time {
	switch {
	case !l.probed.IsZero() && l.generation == b.Generation:
		return schedule.Next(l.probed, period(b), b.UID)
	case b.Status.LastProbeTime == nil || b.Status.ObservedGeneration != b.Generation:
		return time.Time{}
	}
	// The status has whole seconds, rounded down. A time to come is of a clock that
	// is wrong, or of somebody's hand, and tells nothing.
	last := b.Status.LastProbeTime.Add(time.Second)
	if next := schedule.Next(last, period(b), b.UID); next.After(l.seen) && !last.After(l.seen.Add(period(b))) {
		return next
	}
	return l.seen.Add(schedule.Share(min(period(b), refresh), b.UID))
}

// after is the look after a probe that ended now.
func (l look) after(result s3.Verdict, generation int64, now time.Time) look {
	if l.generation != generation {
		l.failures = 0 // they were about another spec
	}
	l.probed, l.generation, l.hindered = now, generation, time.Time{}
	if result.OK() {
		l.succeeded, l.failures = now, 0
	} else if l.failures < math.MaxInt32 {
		l.failures++
	}
	return l
}

// looks holds one look for each bucket. The zero looks is ready for use.
type looks struct {
	mu    sync.Mutex
	known map[client.ObjectKey]look
}

// of returns what is known of the bucket. What is met for the first time begins
// with what its status says.
func (l *looks) of(b *v1beta1.StorageBucket, now time.Time) look {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(b)
	if known, ok := l.known[key]; ok && known.uid == b.UID {
		return known
	}
	first := look{uid: b.UID, seen: now, generation: b.Status.ObservedGeneration, failures: b.Status.ConsecutiveFailures}
	if b.Status.LastSuccessTime != nil {
		first.succeeded = b.Status.LastSuccessTime.Time
	}
	if l.known == nil {
		l.known = map[client.ObjectKey]look{}
	}
	l.known[key] = first
	return first
}

// when is when a bucket that was met already is due.
func (l *looks) when(b *v1beta1.StorageBucket) (due time.Time, met bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.known[client.ObjectKeyFromObject(b)]
	if !ok || known.uid != b.UID {
		return time.Time{}, false
	}
	due = known.due(b)
	// The queue tries again, later each time; a tick must not be faster.
	if again := known.hindered.Add(period(b)); !known.hindered.IsZero() && again.After(due) {
		due = again
	}
	return due, true
}

func (l *looks) store(b *v1beta1.StorageBucket, known look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[client.ObjectKeyFromObject(b)] = known
}

func (l *looks) forget(key client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key)
}

package storagebucket

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// terminating is the state of a namespace that is being deleted. config/credentials retains
// the Secret until the StorageBucket is deleted, so the namespace waits for the endpoint.
// A deadline bounds this wait, so that a dead or hostile endpoint cannot block it forever.
type terminating struct {
	// namespace is nil unless it is being deleted.
	namespace *corev1.Namespace
	// deadline is the time after which a bucket that cannot be removed is retained.
	deadline time.Time
	grace    time.Duration
}

// terminating reads whether the namespace is being deleted. The grace period begins at the
// deletion or at this process's first reconcile, whichever is later. So an operator that
// was down still attempts the removal.
func (r *Reconciler) terminating(ctx context.Context, b *v1beta1.StorageBucket) (terminating, error) {
	ns, err := reconciler.Get(ctx, r.Client, client.ObjectKey{Name: b.Namespace}, &corev1.Namespace{})
	if err != nil {
		return terminating{}, fmt.Errorf("reading namespace %s: %w", b.Namespace, err)
	}
	if ns == nil {
		// The namespace was deleted before its contents.
		ns = &corev1.Namespace{}
		ns.Name, ns.DeletionTimestamp = b.Namespace, b.DeletionTimestamp
	}
	if ns.DeletionTimestamp.IsZero() {
		return terminating{}, nil
	}
	since := ns.DeletionTimestamp.Time
	if seen := r.states.of(b, r.Clock.Now()).seen; seen.After(since) {
		since = seen
	}
	return terminating{namespace: ns, deadline: since.Add(r.RemovalGrace), grace: r.RemovalGrace}, nil
}

// settle retains the bucket if waiting cannot help, or after the deadline.
func (t terminating) settle(end ending, b *v1beta1.StorageBucket, now time.Time) ending {
	switch {
	case t.namespace == nil, end.waiting == nil && !end.parked:
		return end
	case end.parked:
		// Other requests to this endpoint used the time, and this bucket was never
		// requested. It gets the grace period twice.
		if now.Before(t.deadline.Add(t.grace)) {
			return end
		}
		return kept(b, v1beta1.ReasonEndpointUnreachable, "requests about other buckets at the endpoint took too long")
	case end.lost:
		return kept(b, end.waiting.Reason, end.waiting.Message+", and a namespace that is being deleted accepts no new one")
	case now.Before(t.deadline):
		return end
	}
	return kept(b, end.waiting.Reason, end.waiting.Message)
}

// kept returns the result that removes the finalizer and retains the bucket.
func kept(b *v1beta1.StorageBucket, reason, message string) ending {
	return ending{kept: reason, events: []reporting.PendingEvent{reporting.Warning(v1beta1.EventBucketRetained, "Release",
		"kept bucket %s, which could not be removed before its namespace: %s: %s; remove it at the endpoint if it is not needed", b.Spec.BucketName, reason, message)}}
}

// note returns the addition to the status message while the namespace waits.
func (t terminating) note() string {
	if t.namespace == nil {
		return ""
	}
	return fmt.Sprintf(". The namespace is being deleted: the operator keeps the bucket if it cannot remove it before %s",
		t.deadline.UTC().Format(time.RFC3339))
}

// emit records events about a StorageBucket. A terminating namespace accepts no events. In
// that case they regard the Namespace, which puts them into the namespace default.
func (t terminating) emit(recorder events.EventRecorder, b *v1beta1.StorageBucket, list []reporting.PendingEvent) {
	if t.namespace == nil {
		reporting.Flush(recorder, b, list)
		return
	}
	for _, n := range list {
		n.Message = fmt.Sprintf("StorageBucket %s/%s: %s", b.Namespace, b.Name, n.Message)
		reporting.Flush(recorder, t.namespace, []reporting.PendingEvent{n.About(b)})
	}
}

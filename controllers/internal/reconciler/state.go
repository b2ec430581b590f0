package reconciler

import (
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// maxQuietDenials is the number of consecutive reconciles of an object that the fence may deny
	// before an error is logged: about 5 s. The API server observes a new leader within
	// milliseconds; a deleted Lease is created again within a retry period.
	maxQuietDenials = 25
	// RetryWhenDenied is the interval of retries after that.
	RetryWhenDenied = 10 * time.Second
)

// State is the state that a controller keeps about the objects of its kind between reconciles. The
// zero State is ready for use, and safe for concurrent use.
type State struct {
	ReadYourWrites

	denials    sync.Map // client.ObjectKey -> int: consecutive reconciles that the fence denied
	suspicions sync.Map // client.ObjectKey -> *suspicion
}

// Forget drops the state of a deleted object.
func (s *State) Forget(key client.ObjectKey) {
	s.ReadYourWrites.Forget(key)
	s.denials.Delete(key)
	s.suspicions.Delete(key)
}

// denied returns when to retry a reconcile that the fence denied. A denial is usually no failure: a
// former leader is about to exit, or the API server has not observed the new one yet. A fence that
// always denies is misconfigured, so it is logged.
func (s *State) denied(ctx context.Context, key client.ObjectKey, err error) ctrl.Result {
	count := 1
	if before, known := s.denials.Load(key); known {
		count += before.(int)
	}
	s.denials.Store(key, count)
	if count <= maxQuietDenials {
		log.FromContext(ctx).V(1).
			Info("the admission policy leasehold-fence denied a write, trying again", "answer", err.Error())
		return ctrl.Result{RequeueAfter: RetryAfterConflict}
	}
	log.FromContext(ctx).Error(err, "the admission policy leasehold-fence keeps denying the writes of this leader; "+
		"check that its binding names the Lease of --leader-election-id and that --leader-elect is on. An API server that "+
		"has seen "+
		"the deletion of an earlier binding may use an old Lease until it restarts; validationActions: [Audit] in the "+
		"binding turns the policy off")
	return ctrl.Result{RequeueAfter: RetryWhenDenied}
}

func (s *State) admitted(key client.ObjectKey) { s.denials.Delete(key) }

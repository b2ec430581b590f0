package pass

import (
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/controllers/internal/ownwrites"
)

const (
	// patience is how many passes in a row over one object may be denied by the
	// fence before something is said: about 5 s. A new leader is known within
	// milliseconds, a Lease that was deleted is back within a retry period.
	patience = 25
	// DeniedAgain is how soon an object is looked at again after that.
	DeniedAgain = 10 * time.Second
)

// Memory is what a controller remembers of the objects of its kind from one pass
// to the next. The zero Memory is ready for use, from several goroutines.
type Memory struct {
	// Floor has the versions of its own writes.
	ownwrites.Floor
	denials sync.Map // client.ObjectKey -> int: passes in a row that the fence ended
	doubts  sync.Map // client.ObjectKey -> *doubt
}

// Forget drops what is known of an object that is gone.
func (m *Memory) Forget(key client.ObjectKey) {
	m.Floor.Forget(key)
	m.denials.Delete(key)
	m.doubts.Delete(key)
}

// denied says what follows a pass that the fence ended. It is not a failure: a
// former leader is about to exit, and of a new one the API server is about to
// hear. But a fence that never opens is set up wrongly, and that must be seen.
func (m *Memory) denied(ctx context.Context, key client.ObjectKey, err error) ctrl.Result {
	count := 1
	if before, known := m.denials.Load(key); known {
		count += before.(int)
	}
	m.denials.Store(key, count)
	if count <= patience {
		log.FromContext(ctx).V(1).Info("the admission policy leasehold-fence denied a write, trying again", "answer", err.Error())
		return ctrl.Result{RequeueAfter: LookAgain}
	}
	log.FromContext(ctx).Error(err, "the admission policy leasehold-fence keeps denying the writes of this leader; "+
		"check that its binding names the Lease of --leader-election-id and that --leader-elect is on. An API server that has seen "+
		"the deletion of an earlier binding may use an old Lease until it restarts; validationActions: [Audit] in the binding turns the policy off")
	return ctrl.Result{RequeueAfter: DeniedAgain}
}

func (m *Memory) admitted(key client.ObjectKey) { m.denials.Delete(key) }

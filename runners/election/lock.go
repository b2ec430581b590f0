package election

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// The election's own share of requests. Two a retry period are needed; the rest
// is room for retry periods far below one second.
const (
	electionQPS   = 20
	electionBurst = 40
)

// Options say which Lease is fought for, and by whom.
type Options struct {
	// Lease is the object that all replicas compete for.
	Lease types.NamespacedName
	// PodName starts the identity; empty means the host's name.
	PodName string
	// RenewDeadline is the manager's; half of it, but at least a second, is what
	// one request may take, so that a single one that hangs cannot lose the Lease.
	RenewDeadline time.Duration
	// RetryPeriod is the manager's too: the two together are how long the elector
	// goes on after its last renewal.
	RetryPeriod time.Duration
	// Clock says how long ago the Lease was renewed, or found to be gone.
	Clock clock.PassiveClock
}

// Lock is a resourcelock on a Lease with a client of its own: however busy the
// workers are, no renewal waits behind their requests. Only one elector may use it.
type Lock struct {
	resourcelock.LeaseLock
	recorder *recorder
	clock    clock.PassiveClock

	// term is for how long the holder that was seen last may lead, if that is
	// somebody else, and held until when, once the Lease was found to be gone.
	term time.Duration
	held time.Time

	// patience is for how long a leader may go on after its last renewal, and
	// renewed when it asked for that; zero while somebody else leads.
	patience time.Duration
	renewed  time.Time
}

// NewLock returns the lock for ctrl.Options.LeaderElectionResourceLockInterface.
// Its identity is "<pod>_<uuid>": the Pod's name says who leads, the uuid tells a
// restarted container from the one before.
func NewLock(config *rest.Config, o Options) (*Lock, error) {
	holder := o.PodName
	if holder == "" {
		var err error
		if holder, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("reading the host name for the election identity: %w", err)
		}
	}
	leases, err := coordinationv1client.NewForConfig(clientConfig(config, o.RenewDeadline))
	if err != nil {
		return nil, fmt.Errorf("building the election client: %w", err)
	}
	recorder := &recorder{}
	return &Lock{
		LeaseLock: resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: o.Lease.Namespace, Name: o.Lease.Name},
			Client:    leases,
			LockConfig: resourcelock.ResourceLockConfig{
				Identity:      holder + "_" + string(uuid.NewUUID()),
				EventRecorder: recorder,
			},
		},
		recorder: recorder,
		clock:    o.Clock,
		patience: o.RenewDeadline + o.RetryPeriod,
	}, nil
}

// Get implements resourcelock.Interface. It remembers who was seen to lead.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.whileLeading(ctx)
	defer cancel()
	record, raw, err := l.LeaseLock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		// From now on, and not from when it was seen: it may have been renewed since.
		if l.held.IsZero() {
			l.held = l.clock.Now().Add(l.term)
		}
	case err == nil:
		l.leads(record)
	}
	return record, raw, err
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.whileLeading(ctx)
	defer cancel()
	return l.take(ctx, record, l.LeaseLock.Update)
}

// take asks for the Lease, and remembers when it did.
func (l *Lock) take(ctx context.Context, record resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	asked := l.clock.Now()
	err := do(ctx, record)
	if err == nil {
		l.leads(&record)
		if record.HolderIdentity == l.Identity() {
			l.renewed = asked
		}
	}
	return err
}

func (l *Lock) leads(record *resourcelock.LeaderElectionRecord) {
	l.term, l.held = 0, time.Time{}
	if record.HolderIdentity == l.Identity() {
		return
	}
	l.renewed = time.Time{}
	if record.HolderIdentity != "" {
		l.term = time.Duration(record.LeaseDurationSeconds) * time.Second
	}
}

// whileLeading bounds a request by a leader to the time for which it may lead. One
// that could not renew in that time gives the Lease back before it stops: what it
// waits for an API server that does not answer, it would lead on beside the next.
func (l *Lock) whileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.renewed.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.renewed.Add(l.patience).Sub(l.clock.Now()))
}

// Create implements resourcelock.Interface. Somebody may delete the Lease while it
// is held. Its holder makes it anew with its next renewal, and a leader that finds
// it in other hands goes on until its renew deadline: whoever creates it
// within a lease of its end leads beside the one before. So that is refused, and
// the elector tries again.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if left := l.held.Sub(l.clock.Now()); left > 0 {
		return fmt.Errorf("lease %s is gone, but who held it may lead for another %s", l.Describe(), left)
	}
	return l.take(ctx, record, l.LeaseLock.Create)
}

// clientConfig is config with the election's own rate limit and timeout.
func clientConfig(config *rest.Config, renewDeadline time.Duration) *rest.Config {
	own := rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	own.RateLimiter = nil // a limiter handed down would be the shared one
	own.QPS, own.Burst = electionQPS, electionBurst
	own.Timeout = max(renewDeadline/2, time.Second)
	return own
}

// RecordWith sends the events of the election to r. The lock is needed to build
// the manager, and the recorder comes from the manager, hence the second step;
// it must be done before the manager starts. Without it there are no events.
func (l *Lock) RecordWith(r events.EventRecorder) { l.recorder.to = r }

// recorder writes what the election says to events.k8s.io, so that no rights on
// core events are needed.
type recorder struct{ to events.EventRecorder }

var _ resourcelock.EventRecorder = (*recorder)(nil)

// action is what events.k8s.io wants to know beside the reason. The elector has
// one word for everything it does.
const action = "Elect"

// Eventf implements resourcelock.EventRecorder.
func (r *recorder) Eventf(lease runtime.Object, eventType, reason, message string, args ...any) {
	if r.to == nil {
		return
	}
	r.to.Eventf(lease, nil, eventType, reason, action, message, args...)
}

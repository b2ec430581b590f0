// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// The election's own rate limit. A leader needs one request in a retry period; the rest allows
// retry periods far below one second.
const (
	electionQPS   = 20
	electionBurst = 40
)

// MaxLeaseDuration limits the term of a leader after a renewal, even if the Lease names a longer
// duration. A forged Lease therefore prevents the replicas from leading for at most this time, even
// after the Lease is deleted.
const MaxLeaseDuration = 10 * time.Minute

// Options configure a Lock.
type Options struct {
	// Lease is the object that all replicas compete for.
	Lease types.NamespacedName
	// PodName is the first part of the identity. Empty: the host name.
	PodName string
	// PodUID is the UID of this Pod, from the downward API. Without it the Lease does not
	// name the holder's Pod, so other replicas get no evidence about this one.
	PodUID types.UID
	// Container is the name of the container that all replicas run in. Empty: the Pod's only
	// container; a Pod with several containers then gives no evidence.
	Container string

	// RenewDeadline is the renew deadline of the elector. A request times out after half of it, but
	// not before one second, so a single request that hangs does not lose the Lease. Required.
	RenewDeadline time.Duration
	// RetryPeriod is the retry period of the elector. After its watch has been silent for two retry
	// periods, a standby sends one live read per retry period. Required.
	RetryPeriod time.Duration

	// Clock provides timers and the times that the Lease records. Required.
	Clock clock.WithDelayedExecution
	// Elapsed returns the time since an arbitrary moment. It must never decrease, and should
	// advance while the machine is suspended. Nil: SinceBoot.
	Elapsed func() time.Duration

	// Lost is called once, when a leader observes another holder or when its term has expired. It
	// should exit the process. Nil: the elector notices the loss itself, up to a renew deadline
	// later.
	Lost func(reason string)
	// Evidence lets a standby take over as soon as the holder's Pod shows that the holder's process
	// has exited.
	Evidence bool
}

// validate returns the errors of all options without which the lock cannot work.
func (o *Options) validate() error {
	var errs []error
	if o.RenewDeadline <= 0 {
		errs = append(errs, fmt.Errorf("the renew deadline %s is not positive", o.RenewDeadline))
	}
	if o.RetryPeriod <= 0 {
		errs = append(errs, fmt.Errorf("the retry period %s is not positive", o.RetryPeriod))
	}
	if o.Clock == nil {
		errs = append(errs, errors.New("the clock is missing"))
	}
	return errors.Join(errs...)
}

// Lock is a resourcelock on a Lease. It has a client of its own, so a renewal never waits behind
// the requests of busy workers. Only one elector may use it.
type Lock struct {
	lease    types.NamespacedName
	identity string
	podUID   types.UID
	started  time.Time // by the wall clock of then
	clock    clock.WithDelayedExecution
	elapsed  func() time.Duration
	client   coordinationv1client.LeaseInterface
	recorder events.EventRecorder // nil for no events
	standby  *standby
	term     *Term

	role   role
	stored *coordinationv1.Lease // as last written or read while leading
	chosen bool                  // the standby has decided to claim the Lease, and has not tried yet
	reason string                // of the last takeover
}

// role is this replica's part in the election.
type role int

const (
	waiting role = iota // for the Lease
	leading
	deposed // led, and has observed that it does not lead any more
)

var _ resourcelock.Interface = (*Lock)(nil)

// NewLock returns the lock for ctrl.Options.LeaderElectionResourceLockInterface.
// Its identity is "<pod>_<uuid>": the Pod's name shows which replica leads, the uuid distinguishes
// a restarted container from its predecessor.
func NewLock(config *rest.Config, o Options) (*Lock, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("building the election lock: %w", err)
	}
	if o.Elapsed == nil {
		o.Elapsed = SinceBoot
	}
	pod := o.PodName
	if pod == "" {
		var err error
		if pod, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("reading the host name for the election identity: %w", err)
		}
	}
	leases, err := coordinationv1client.NewForConfig(clientConfig(config, o.RenewDeadline))
	if err != nil {
		return nil, fmt.Errorf("building the election client: %w", err)
	}
	l := &Lock{
		lease:    o.Lease,
		identity: pod + "_" + string(uuid.NewUUID()),
		podUID:   o.PodUID,
		started:  o.Clock.Now(),
		clock:    o.Clock,
		elapsed:  o.Elapsed,
		client:   leases.Leases(o.Lease.Namespace),
		term:     newTerm(o.Elapsed, o.Clock, o.Lost, o.RenewDeadline+o.RetryPeriod),
	}
	if l.standby, err = newStandby(config, l, o); err != nil {
		return nil, err
	}
	return l, nil
}

// Get implements resourcelock.Interface. On a standby it blocks until the standby may take the
// Lease. The record that it then returns has no holder, so the elector does not wait until the
// Lease has expired by its own observation.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.role != waiting {
		return l.read(ctx)
	}
	err := l.await(ctx)
	lease := l.standby.view.lease
	switch {
	case err != nil && (lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == ""):
		return nil, nil, err
	case lease == nil:
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), l.lease.Name)
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if err == nil {
		record.HolderIdentity = ""
	}
	// A standby that is stopped while another leads shows the elector that holder: it ends
	// without an error in the log.
	return encode(record)
}

// await blocks until the standby may take the Lease, and stores the decision with its reason.
func (l *Lock) await(ctx context.Context) error {
	decision, err := l.standby.await(ctx)
	if err != nil {
		return err
	}
	l.chosen, l.reason = true, decision.reason
	return nil
}

// read is Get of a leader. A leader that reads another holder has lost the Lease.
func (l *Lock) read(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.term.bound(ctx)
	defer cancel()
	lease, err := l.client.Get(ctx, l.lease.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	l.stored = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if l.role == leading && record.HolderIdentity != "" && record.HolderIdentity != l.identity {
		l.role = deposed
		l.term.lose(record.HolderIdentity + " holds the Lease")
	}
	return encode(record)
}

func encode(record *resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, []byte, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the election record: %w", err)
	}
	return record, raw, nil
}

// Create implements resourcelock.Interface. The elector calls it where Get found no Lease.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.stored = nil
	return l.Update(ctx, record)
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	switch {
	case l.role == deposed:
		return fmt.Errorf("lease %s is lost", l.Describe())
	case l.role == waiting:
		return l.take(ctx, record)
	case record.HolderIdentity == "":
		return l.release(ctx, record)
	}
	return l.renew(ctx, record)
}

// Identity implements resourcelock.Interface.
func (l *Lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *Lock) Describe() string { return l.lease.String() }

// Term returns the term of this replica, which guards the transports of clients.
func (l *Lock) Term() *Term { return l.term }

// clientConfig is config with the election's own rate limit and timeout.
func clientConfig(config *rest.Config, renewDeadline time.Duration) *rest.Config {
	own := rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	own.RateLimiter = nil // an inherited limiter would be the shared one
	own.QPS, own.Burst = electionQPS, electionBurst
	own.Timeout = max(renewDeadline/2, time.Second)
	return own
}

// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// take claims the Lease for a standby. A standby that loses the race, or gets no response, waits
// here for its next chance: the elector would pause first. A write of the elector alone claims
// nothing: each claim needs a decision of the standby.
func (l *Lock) take(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	for {
		if !l.chosen {
			if err := l.await(ctx); err != nil {
				return err
			}
		}
		l.chosen = false
		err := l.claim(ctx, record)
		if err == nil {
			klog.FromContext(ctx).Info("took the Lease", "lock", l.Describe(), "reason", l.reason)
			return nil
		}
		klog.FromContext(ctx).Info("failed to acquire the Lease", "lock", l.Describe(), "error", err.Error())
		l.standby.view.failClaim(l.elapsed(), l.standby.retryPeriod)
	}
}

// claim sends one write that makes this replica the holder. The resourceVersion of the Lease
// that the standby observed makes the API server refuse all claims but the first.
func (l *Lock) claim(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	now := metav1.NewTime(l.clock.Now())
	record.AcquireTime, record.RenewTime = now, now
	record.LeaderTransitions = 0
	observed := l.standby.view.lease
	if observed != nil {
		record.LeaderTransitions = resourcelock.LeaseSpecToLeaderElectionRecord(&observed.Spec).LeaderTransitions + 1
	}
	if err := l.hold(ctx, observed, &record); err != nil {
		return err
	}
	l.role = leading
	l.standby.stop()
	return nil
}

// renew extends the term. The elector computes its record before it calls Get, which may have been
// long ago, and it does not have the record of a claim; so only the holder and the duration are
// taken from it.
func (l *Lock) renew(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.term.over(); err != nil {
		return err
	}
	ctx, cancel := l.term.bound(ctx)
	defer cancel()
	record.RenewTime = metav1.NewTime(l.clock.Now())
	if l.stored != nil {
		last := resourcelock.LeaseSpecToLeaderElectionRecord(&l.stored.Spec)
		record.AcquireTime, record.LeaderTransitions = last.AcquireTime, last.LeaderTransitions
	}
	return l.hold(ctx, l.stored, &record)
}

// hold writes a record of this holder. The term is counted from before the request.
func (l *Lock) hold(ctx context.Context, base *coordinationv1.Lease, record *resourcelock.LeaderElectionRecord) error {
	sent := l.elapsed()
	stored, err := l.write(ctx, base, record)
	if err != nil {
		return err
	}
	l.stored = stored
	l.term.extend(sent, leaseDuration(stored))
	return nil
}

// release releases the Lease. The term ends before the request is sent, because the next leader may
// act before the response arrives.
func (l *Lock) release(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.term.bound(ctx)
	defer cancel()
	l.term.finish()
	if _, err := l.write(ctx, l.stored, &record); err != nil {
		return err
	}
	l.role, l.stored = waiting, nil
	return nil
}

// write stores the record: as a new Lease if there is no base, and otherwise as an update of base,
// whose resourceVersion the API server compares.
func (l *Lock) write(ctx context.Context, base *coordinationv1.Lease,
	record *resourcelock.LeaderElectionRecord) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.lease.Namespace, Name: l.lease.Name}}
	if base != nil {
		lease = base.DeepCopy()
	}
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(record)
	annotate(lease, record.HolderIdentity, l.podUID, l.started)
	var err error
	if base == nil {
		lease, err = l.client.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = l.client.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("writing lease %s: %w", l.Describe(), err)
	}
	return lease, nil
}

// leaseDuration returns how long the holder of the Lease may lead after a renewal. The holder's own
// term and the waits of standbys have the same limits, so no Lease makes a second leader.
func leaseDuration(lease *coordinationv1.Lease) time.Duration {
	seconds := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return min(max(seconds, 0), MaxLeaseDuration)
}

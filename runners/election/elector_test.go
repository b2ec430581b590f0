// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// impatient is an elector that gives each read one retry period.
type impatient struct{ *Lock }

func (i impatient) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, retryPeriod)
	defer cancel()
	return i.Lock.Get(ctx)
}

// blind is an elector that writes without a read, in each of its periods.
type blind struct{ *Lock }

func (b blind) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if b.role != waiting {
		return b.Lock.Get(ctx)
	}
	return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), b.lease.Name)
}

// overruling is an elector that reads and claims a Lease that another replica holds.
type overruling struct{ *Lock }

func (o overruling) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := impatient(o).Get(ctx)
	if err == nil && o.role == waiting {
		record.HolderIdentity = ""
	}
	return record, raw, err
}

// A lock depends on how client-go calls it: Get has no time limit, and a write follows a read. An
// elector that calls it otherwise loses only time. It never makes a second leader.
func TestElectors(t *testing.T) {
	for name, tc := range map[string]struct {
		as   func(*Lock) resourcelock.Interface
		most time.Duration // of a takeover from a leader that released the Lease
	}{
		"client-go":  {func(l *Lock) resourcelock.Interface { return l }, 20 * time.Millisecond},
		"Impatient":  {func(l *Lock) resourcelock.Interface { return impatient{l} }, 3 * retryPeriod},
		"Blind":      {func(l *Lock) resourcelock.Interface { return blind{l} }, 3 * retryPeriod},
		"Overruling": {func(l *Lock) resourcelock.Interface { return overruling{l} }, 3 * retryPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newLeader(t)
				d.put(podOf("second"))
				d.standby = joinWith(t, d.api, "second", tc.as)
				d.take()
				pass(3 * leaseTime)
				requests := d.take()
				if !d.leader.leads(d.api) || len(d.leader.lost) > 0 {
					t.Fatalf("the leader that renews does not lead any more: %q", requests)
				}
				if n := count(requests, "PUT leases second", "POST leases second"); n > 0 {
					t.Errorf("%d writes beside a leader that renews: %q", n, requests)
				}
				d.leader.stop()
				d.expect(t, d.takesOver(t, leaseTime), 0, tc.most, "released")
			})
		})
	}
}

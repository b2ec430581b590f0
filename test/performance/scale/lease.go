package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/leasehold"
)

// noProcess ends the identity of a holder that is no process.
const noProcess = "_no-process"

// rest restarts the replica as a standby. Its caches fill and its webhooks answer. A client with
// its token passes the fence, because the Lease names its Pod.
func (f *testbed) rest(ctx context.Context, r *env.Replica) error {
	if _, err := r.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the leader: %w", err)
	}
	if err := f.hand(ctx, r.Name()+noProcess); err != nil {
		return err
	}
	if err := r.Restart(); err != nil {
		return err
	}
	return f.AwaitReady(ctx)
}

// lead lets the replica lead. It returns at once.
func (f *testbed) lead(ctx context.Context) error { return f.hand(ctx, "") }

// hand writes the holder of the Lease. An empty holder leaves it to the first replica that acquires
// it.
func (f *testbed) hand(ctx context.Context, holder string) error {
	lease, err := leasehold.ElectionLease(ctx, f.Client)
	if err != nil {
		return err
	}
	now := metav1.NewMicroTime(f.bench.Clock.Now())
	lease.Spec.HolderIdentity = new(holder)
	lease.Spec.LeaseDurationSeconds = new(int32(time.Hour / time.Second))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	if err := f.Client.Update(ctx, lease); err != nil {
		return fmt.Errorf("handing over the election Lease: %w", err)
	}
	return nil
}

// led is when the leader of now began to lead.
func (f *testbed) led(ctx context.Context) (time.Time, error) {
	lease, err := leasehold.ElectionLease(ctx, f.Client)
	if err != nil {
		return time.Time{}, err
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.AcquireTime == nil {
		return time.Time{}, errors.New("no replica leads")
	}
	return lease.Spec.AcquireTime.Time, nil
}

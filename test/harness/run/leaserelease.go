// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// releaseDelay is the time from the end of a process to the release of its Lease by the harness.
// Requests in flight have arrived by then.
const releaseDelay = 500 * time.Millisecond

// releaseLease releases the Lease for a process that the fault has killed, if the subject has
// ReleaseLease. Faults of processes that live do not call it.
func (a *activeFault) releaseLease(ctx context.Context) {
	if !a.prover.subject.ReleaseLease {
		return
	}
	a.goOngoing(func() {
		a.sleep(ctx, releaseDelay)
		if ctx.Err() != nil {
			return // the run is over
		}
		a.addError(a.prover.releaseLease(ctx))
	})
}

// releaseLease removes the holder from the Lease if that is certainly a process that has ended, and
// records that. Otherwise the next leader waits for the Lease to expire.
func (p *Prover) releaseLease(ctx context.Context) error {
	lease, err := p.readLease(ctx)
	if err != nil {
		return err
	}
	// Every write that led to this version had reached a proxy before the read. A later write is a
	// conflict.
	holder := p.endedHolder()
	if holder == nil || holderOf(lease) == "" {
		return nil
	}
	released := lease.DeepCopy()
	released.Spec.HolderIdentity = nil
	err = p.client.Patch(ctx, released, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("releasing the Lease: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releases = append(p.releases, history.LeaseRelease{
		Replica: holder.process.Name(), Identity: holderOf(lease), ResourceVersion: released.ResourceVersion,
		At: p.clock.Now(),
	})
	return nil
}

// endedHolder returns the replica whose process wrote the Lease last, if the process has ended, its
// connections are closed, and the effect of each of its writes is known. Otherwise it returns nil.
func (p *Prover) endedHolder() *replica {
	var last *replica
	var renewal fault.ProxiedRequest
	for _, r := range p.running() {
		for _, request := range r.proxy.Journal().Mutating() {
			if request.Path == p.leasePath() && request.Received.After(renewal.Received) {
				last, renewal = r, request
			}
		}
	}
	if last == nil || !renewal.Committed() {
		return nil
	}
	for _, life := range last.lifetimes() {
		wrote := !renewal.Received.Before(life.Started) && !renewal.Received.After(life.Ended)
		if wrote && leftNothing(last.proxy.Journal(), life.Ended) {
			return last // Ended is zero while a process runs
		}
	}
	return nil
}

// leftNothing reports whether all connections of a process that has ended are closed, and all its
// writes that were forwarded were answered.
func leftNothing(j fault.Journal, ended time.Time) bool {
	for _, c := range j.Connections {
		if c.Accepted.Before(ended) && c.Closed.IsZero() {
			return false
		}
	}
	for _, r := range j.Requests {
		if r.Received.Before(ended) && (r.Done.IsZero() || r.Mutating() && !r.Forwarded.IsZero() && r.Answered.IsZero()) {
			return false
		}
	}
	return true
}

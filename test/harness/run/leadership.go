// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

func (p *Prover) readLease(ctx context.Context) (*coordinationv1.Lease, error) {
	key, lease := p.subject.Contract.Lease, &coordinationv1.Lease{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, lease); err != nil {
		return nil, fmt.Errorf("reading the Lease: %w", err)
	}
	return lease, nil
}

// holderOf returns the identity that holds the Lease, or "". It need not name the replica.
func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// termOf returns how long the Lease lasts without a renewal, or 0 if it does not say so.
func termOf(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// holder returns the identity that holds the Lease, or "" if there is none.
func (p *Prover) holder(ctx context.Context) string {
	lease, err := p.readLease(ctx)
	if err != nil {
		return "" // an operator without an election
	}
	return holderOf(lease)
}

// lastRenewer returns the replica that renewed the Lease last, or nil.
func (p *Prover) lastRenewer() *replica {
	var last *replica
	var at time.Time
	for _, r := range p.running() {
		for _, request := range r.proxy.Journal().Mutating() {
			if request.Committed() && request.Path == p.leasePath() && request.Answered.After(at) {
				last, at = r, request.Answered
			}
		}
	}
	return last
}

// Strays returns the resources that replicas have written while they did not lead, each once, also where the write
// changed nothing.
func (p *Prover) Strays() (all []history.Resource, err error) {
	events, err := record.ReadAuditLog(p.auditLog)
	if err != nil {
		return nil, err
	}
	h, err := record.FromAudit(events)
	if err != nil {
		return nil, fmt.Errorf("looking for writes of replicas that did not lead: %w", err)
	}
	promises := p.subject.Contract
	terms := h.Terms(promises.Lease)
	for _, q := range h.Requests {
		if q.Write() && q.Effect != history.Refused && q.Replica != "" && q.Key != promises.Lease &&
			slices.Contains(promises.Users, q.User) && !slices.Contains(all, q.Resource) &&
			!slices.Contains(history.HeldDuring(terms, q.RevisionRange), q.Replica) {
			all = append(all, q.Resource)
		}
	}
	return all, nil
}

// watchedLeasePath returns the collection with the Lease if a replica watches it, or "".
func (p *Prover) watchedLeasePath() string {
	leases := path.Dir(p.leasePath())
	for _, r := range p.running() {
		if r.proxy.Open(fault.Match{Path: leases, Query: map[string]string{"watch": "true"}}) > 0 {
			return leases
		}
	}
	return ""
}

func (p *Prover) leasePath() string {
	key := p.subject.Contract.Lease
	return fmt.Sprintf("/apis/%s/namespaces/%s/leases/%s", coordinationv1.SchemeGroupVersion, key.Namespace, key.Name)
}

// firstWriteTimeout bounds the wait for the next leader's first write before the old one is healed.
// Often there is nothing to write.
const firstWriteTimeout = time.Second

// leader is a replica that leads since a time.
type leader struct {
	*replica
	since time.Time
}

// waitForSuccessor waits until another replica than old leads and has had time to write. It
// returns nil if none led in time, and records that. before is the identity of old; "" if it is not
// known.
func (a *activeFault) waitForSuccessor(ctx context.Context, old *replica, before string) (*leader, error) {
	limited, cancel := context.WithTimeout(ctx, a.prover.failover)
	defer cancel()
	next := &leader{}
	led := before != "" // old did, as far as is known, when it was looked at first
	err := wait.PollUntilContextCancel(limited, pollInterval, true, func(ctx context.Context) (bool, error) {
		lease, err := a.prover.readLease(ctx)
		if err != nil {
			return false, err
		}
		now := holderOf(lease)
		if before == "" {
			first := a.prover.lastRenewer()
			before, led = now, first == nil || first == old
		}
		if !led || now == "" || now == before {
			return !led, nil
		}
		next.replica, next.since = a.prover.lastRenewer(), a.now()
		return next.replica != nil && next.replica != old, nil
	})
	switch {
	case err == nil && !led:
		a.setVoidReason("replica %s did not lead when it began: %s did", old.process.Name(), before)
		return nil, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("waiting for another leader: %w", err)
	case limited.Err() != nil:
		a.setVoidReason("no other replica than %s came to lead within %s", old.process.Name(), a.prover.failover)
		return nil, nil //nolint:nilnil // no other leader is no error
	case err != nil:
		return nil, err
	}
	return next, a.waitForFirstWrite(ctx, *next)
}

// waitForFirstWrite waits until a leader has written anything but its Lease, or has had time to.
func (a *activeFault) waitForFirstWrite(ctx context.Context, l leader) error {
	limit := a.now().Add(firstWriteTimeout)
	return waitUntil(ctx, "what replica "+l.process.Name()+" writes", func() bool {
		return a.now().After(limit) || slices.ContainsFunc(l.proxy.Journal().Mutating(), func(r fault.ProxiedRequest) bool {
			return r.Committed() && r.Received.After(l.since) && r.Path != a.prover.leasePath()
		})
	})
}

// waitUntilStepsDown waits for a lease term, or until the old leader's process ends. No checkpoint
// may begin before.
func (a *activeFault) waitUntilStepsDown(ctx context.Context, r *replica, life int) error {
	term, err := a.leaseTerm(ctx)
	if err != nil {
		return err
	}
	limit := a.now().Add(term)
	return waitUntil(ctx, "the end of replica "+r.process.Name(), func() bool {
		return !r.lifetimes()[life].Ended.IsZero() || a.now().After(limit)
	})
}

// leaseTerm returns how long a leader keeps the Lease without renewing it.
func (a *activeFault) leaseTerm(ctx context.Context) (time.Duration, error) {
	lease, err := a.prover.readLease(ctx)
	if err != nil {
		return 0, err
	}
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0, fmt.Errorf("reading the Lease: it does not say how long it lasts")
	}
	return termOf(lease), nil
}

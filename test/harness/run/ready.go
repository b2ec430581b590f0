// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/history"
)

// waitUntilReady waits until all replicas are ready and one of them has renewed the Lease. It probes them
// until they are ready, and once after the renewal: a probe costs a replica milliseconds.
func (p *Prover) waitUntilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	var last error
	before := "" // the version of the Lease when all were ready; "" until then
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var version string
		var now error
		if before == "" {
			now = p.checkReady(ctx)
		}
		if now == nil {
			version, now = p.leaseVersion(ctx)
		}
		renewed := now == nil && before != "" && before != version
		if renewed { // a replica may have ended since
			if now = p.checkReady(ctx); now != nil {
				before = ""
			}
		}
		if ctx.Err() == nil { // a request that the end of ctx ended shows no reason
			last = now
		}
		if now == nil {
			before = version
		}
		return renewed && now == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for the replicas: %w", err), last, p.checkEnds())
	}
	return nil
}

// checkEnds returns an error that names the replicas that have ended by themselves. One that ends whenever it leads
// may be ready each time that it is probed.
func (p *Prover) checkEnds() error {
	var errs []error
	for _, r := range p.running() {
		ends := slices.DeleteFunc(r.lifetimes(), func(life history.Process) bool {
			return life.Ended.IsZero() || life.Killed || !life.Asked.IsZero()
		})
		if n := len(ends); n > 0 {
			errs = append(errs, fmt.Errorf("replica %s has ended by itself %d times, the last time with exit code %d; the end of its log:\n%s",
				r.process.Name(), n, ends[n-1].Exit, r.process.LogTail(5)))
		}
	}
	return errors.Join(errs...)
}

// checkReady returns an error that names the replicas that are not ready.
func (p *Prover) checkReady(ctx context.Context) error {
	var errs []error
	for _, r := range p.running() {
		if err := r.process.Ready(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%w; the end of its log:\n%s", err, r.process.LogTail(5)))
		}
	}
	return errors.Join(errs...)
}

// leaseVersion returns the version of the Lease, or an error if it has no holder.
func (p *Prover) leaseVersion(ctx context.Context) (string, error) {
	lease, err := p.readLease(ctx)
	if err != nil {
		return "", err
	}
	if holderOf(lease) == "" {
		return "", errors.New("no replica holds the Lease")
	}
	return lease.ResourceVersion, nil
}

// unreadTimeout bounds the wait for the metrics of a program without a probe, which is ready before
// it listens.
const unreadTimeout = 3 * time.Second

// reportUnread reports that the metrics of a replica are not read.
func (p *Prover) reportUnread(ctx context.Context) {
	if p.subject.Operator.Report == nil {
		return
	}
	r := p.replicas[0]
	// The error is that it did not come to that in time.
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, unreadTimeout, true, func(context.Context) (bool, error) {
		return r.prober.Unread() == nil, nil
	})
	if err := r.prober.Unread(); err != nil {
		p.subject.Operator.Report(fmt.Sprintf("the metrics of %s are not read: work that waits, memory and goroutines are not judged (%v)",
			r.process.Name(), err))
	}
}

// usualTerm is how long a Lease lasts by the defaults of client-go.
const usualTerm = 15 * time.Second

// reportLongTerm reports a Lease that makes plans slow, if the harness does not release it.
func (p *Prover) reportLongTerm(ctx context.Context) {
	lease, err := p.readLease(ctx)
	if err != nil || termOf(lease) <= usualTerm || p.subject.ReleaseLease || p.subject.Operator.Report == nil {
		return
	}
	p.subject.Operator.Report(fmt.Sprintf("the Lease lasts %s: a plan that kills the leader waits so long, and each checkpoint for a renewal; "+
		"arguments of the operator that shorten it belong into args of the subject", termOf(lease)))
}

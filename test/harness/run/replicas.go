// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// replicaOverrides are the differences of a replica from the others.
type replicaOverrides struct {
	binary string // empty: the same
	build  string // what the history calls it; empty: nothing
}

// startProcess starts a process as a Pod of the operator.
func (p *Prover) startProcess(ctx context.Context, u replicaOverrides) (process, *fault.Proxy, error) {
	proxy, err := fault.NewAPIProxy(p.plane.Config(), p.clock)
	if err != nil {
		return nil, nil, err
	}
	started, err := p.installation.Start(ctx, func(o *env.ReplicaOptions) {
		connect := o.Connect
		o.Connect = func(c *rest.Config) {
			if connect != nil {
				connect(c)
			}
			proxy.Connect(c)
		}
		if u.binary != "" {
			o.Binary = u.binary
		}
	})
	if err != nil {
		return nil, nil, errors.Join(err, proxy.Close())
	}
	return started, proxy, nil
}

// reach makes an address reachable for all replicas, those that start later too.
func (p *Prover) reach(address string) error {
	p.mu.Lock()
	p.reachable = append(p.reachable, address)
	p.mu.Unlock()
	for _, r := range p.running() {
		if err := r.process.Reach(address); err != nil {
			return err
		}
	}
	return nil
}

func (p *Prover) unreach(address string) {
	p.mu.Lock()
	p.reachable = slices.DeleteFunc(p.reachable, func(a string) bool { return a == address })
	p.mu.Unlock()
	for _, r := range p.running() {
		r.process.Unreach(address)
	}
}

// addReplica starts one more replica, which runs until it is removed.
func (p *Prover) addReplica(ctx context.Context, u replicaOverrides) (*replica, error) {
	ctx = context.WithoutCancel(ctx) // it outlives the call
	process, proxy, err := p.startReplica(ctx, u)
	if err != nil {
		return nil, err
	}
	r := &replica{proxy: proxy, clock: p.clock, build: u.build}
	r.supervise(ctx, process)
	if p.installation != nil {
		prober := record.Probe(ctx, p.clock, probeTargetOf(process, p.installation.HasWebhooks()))
		r.mu.Lock()
		r.prober = prober
		r.mu.Unlock()
	}
	p.mu.Lock()
	p.replicas = append(p.replicas, r)
	reachable := slices.Clone(p.reachable)
	p.mu.Unlock()
	for _, address := range reachable {
		if err := process.Reach(address); err != nil {
			return r, err
		}
	}
	return r, nil
}

// removeReplica stops a replica and keeps only its history.
func (p *Prover) removeReplica(ctx context.Context, r *replica) error {
	if err := r.stop(ctx, p.gracePeriod()); err != nil {
		return err
	}
	return p.detachReplica(r)
}

// detachReplica moves a replica that has ended from replicas to removed.
func (p *Prover) detachReplica(r *replica) error {
	err := r.release()
	r.process.Kill() // it may have been about to start again
	p.mu.Lock()
	p.replicas = slices.DeleteFunc(p.replicas, func(o *replica) bool { return o == r })
	p.removed = append(p.removed, r)
	p.mu.Unlock()
	return errors.Join(err, r.process.Close(), r.proxy.Close())
}

// replaceReplica kills a replica that cannot work any more and starts another one.
func (p *Prover) replaceReplica(ctx context.Context, r *replica) error {
	r.mu.Lock()
	r.isLast = true
	r.mu.Unlock()
	life := len(r.lifetimes()) - 1
	r.kill()
	if err := r.waitUntilEnded(ctx, life, p.gracePeriod()); err != nil {
		return err
	}
	err := p.detachReplica(r)
	_, started := p.addReplica(ctx, replicaOverrides{})
	return errors.Join(err, started)
}

func (p *Prover) gracePeriod() time.Duration {
	if grace := p.subject.Contract.Limits.Grace.Duration; grace > 0 {
		return grace
	}
	return defaultTimeout
}

func (p *Prover) running() []*replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.replicas)
}

// historySince returns what all replicas did since a time, including replicas that have been
// removed, and the releases of the Lease in this run.
func (p *Prover) historySince(since time.Time) *history.History {
	p.mu.Lock()
	all := slices.Concat(p.removed, p.replicas)
	h := &history.History{Recorded: []history.Source{history.Processes}, Releases: slices.Clone(p.releases)}
	p.mu.Unlock()
	for _, r := range all {
		for _, life := range r.lifetimes() {
			if life.Ended.IsZero() || !life.Ended.Before(since) {
				h.Replicas = append(h.Replicas, life)
			}
		}
		if r.prober != nil {
			h.Recorded = append(h.Recorded, history.Probes)
			h.Probes = append(h.Probes, r.prober.Since(since)...)
			h.Followed = append(h.Followed, followedCollections(r.proxy.Journal(), r.process.Name(), since)...)
		}
	}
	slices.Sort(h.Recorded)
	h.Recorded = slices.Compact(h.Recorded)
	return h
}

// reset drops the records of earlier runs. Afterwards the next renewal of the Lease shows which
// replica leads.
func (p *Prover) reset(before time.Time) {
	p.mu.Lock()
	p.removed, p.releases = nil, nil
	p.mu.Unlock()
	for _, r := range p.running() {
		r.proxy.Forget()
		if r.prober != nil {
			r.prober.Forget(before)
		}
	}
}

func probeTargetOf(process process, webhooks bool) record.ProbeTarget {
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	ports := process.Ports()
	t := record.ProbeTarget{
		Name: process.Name(), Ready: process.ReadyURL(), Metrics: at(ports.Metrics),
	}
	if webhooks {
		t.Webhook = at(ports.Webhook)
	}
	return t
}

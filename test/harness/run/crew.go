package run

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// unlike is what a replica has different from those that run all the time.
type unlike struct {
	binary string // empty: the same
	args   []string
	build  string // what the history calls it; empty: nothing
}

// launch starts a process behind a proxy of its own.
type launch func(ctx context.Context, u unlike) (process, *fault.Proxy, error)

// launchProcess starts a process as a Pod of the operator's.
func (p *Prover) launchProcess(ctx context.Context, u unlike) (process, *fault.Proxy, error) {
	proxy, err := fault.NewAPIProxy(p.plane.Config(), p.clock)
	if err != nil {
		return nil, nil, err
	}
	started, err := p.installation.Start(ctx, func(o *env.ReplicaOptions) {
		connect, args := o.Connect, o.Args
		o.Connect = func(c *rest.Config) {
			if connect != nil {
				connect(c)
			}
			proxy.Connect(c)
		}
		o.Args = func(ports env.ReplicaPorts) []string { return slices.Concat(args(ports), u.args) }
		if u.binary != "" {
			o.Binary = u.binary
		}
	})
	if err != nil {
		return nil, nil, errors.Join(err, proxy.Close())
	}
	return started, proxy, nil
}

// add starts one more replica, which is kept running until it is removed.
func (p *Prover) add(ctx context.Context, u unlike) (*replica, error) {
	ctx = context.WithoutCancel(ctx) // it outlives the call
	process, proxy, err := p.launch(ctx, u)
	if err != nil {
		return nil, err
	}
	r := &replica{proxy: proxy, clock: p.clock, build: u.build}
	r.keep(ctx, process)
	if p.installation != nil {
		target := targetOf(process, proxy, p.installation.HasWebhooks())
		target.Figures = p.subject.Figures
		r.prober = record.Probe(ctx, p.clock, target)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas = append(p.replicas, r)
	return r, nil
}

// remove asks a replica to stop, waits until it has, and forgets it but for what it
// was.
func (p *Prover) remove(ctx context.Context, r *replica) error {
	if err := r.retire(ctx, p.grace()); err != nil {
		return err
	}
	return p.withdraw(r)
}

// withdraw takes a replica that has ended out of those that run.
func (p *Prover) withdraw(r *replica) error {
	err := r.leave()
	p.mu.Lock()
	p.replicas = slices.DeleteFunc(p.replicas, func(o *replica) bool { return o == r })
	p.retired = append(p.retired, r)
	p.mu.Unlock()
	return errors.Join(err, r.proxy.Close())
}

// replace ends a replica that cannot go on, and starts another in its place.
func (p *Prover) replace(ctx context.Context, r *replica) error {
	r.mu.Lock()
	r.leaves = true
	r.mu.Unlock()
	life := len(r.lived()) - 1
	r.kill()
	if err := r.gone(ctx, life, p.grace()); err != nil {
		return err
	}
	err := p.withdraw(r)
	r.process.Kill() // it may have been about to start again
	_, started := p.add(ctx, unlike{})
	return errors.Join(err, started)
}

// grace is how long a replica may take to stop.
func (p *Prover) grace() time.Duration {
	if grace := p.subject.Promises.Limits.Grace.Duration; grace > 0 {
		return grace
	}
	return patience
}

// present are the replicas as they are now.
func (p *Prover) present() []*replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.replicas)
}

// told is what replicas have to tell of the time since a moment, those that are no
// more among them.
func (p *Prover) told(since time.Time) *history.History {
	p.mu.Lock()
	all := slices.Concat(p.retired, p.replicas)
	p.mu.Unlock()
	h := &history.History{Recorded: []history.Source{history.Processes}}
	for _, r := range all {
		for _, life := range r.lived() {
			if life.Ended.IsZero() || !life.Ended.Before(since) {
				h.Replicas = append(h.Replicas, life)
			}
		}
		if r.prober != nil {
			h.Recorded = append(h.Recorded, history.Probes)
			h.Probes = append(h.Probes, r.prober.Since(since)...)
			h.Followed = append(h.Followed, followed(r.proxy.Journal(), r.process.Name(), since)...)
		}
	}
	slices.Sort(h.Recorded)
	h.Recorded = slices.Compact(h.Recorded)
	return h
}

// forget drops what earlier runs have left: what is over, and what was told of the time
// before a moment. Then it is known who leads when the Lease has been renewed.
func (p *Prover) forget(before time.Time) {
	p.mu.Lock()
	p.retired = nil
	p.mu.Unlock()
	for _, r := range p.present() {
		r.proxy.Forget()
		if r.prober != nil {
			r.prober.Forget(before)
		}
	}
}

func (p *Prover) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	key, lease := p.subject.Promises.Lease, &coordinationv1.Lease{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, lease); err != nil {
		return nil, fmt.Errorf("reading the Lease: %w", err)
	}
	return lease, nil
}

// holder is the identity that holds the Lease; "" is nobody. It need not name the
// replica.
func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// renewer is the replica whose write to the Lease was answered last; nil if nobody has
// written it.
func (p *Prover) renewer() *replica {
	var last *replica
	var at time.Time
	for _, r := range p.present() {
		for _, request := range r.proxy.Journal().Mutating() {
			if request.Committed() && request.Path == p.leasePath() && request.Answered.After(at) {
				last, at = r, request.Answered
			}
		}
	}
	return last
}

// watchedLeases is the collection with the Lease if a replica watches that; otherwise it is empty.
func (p *Prover) watchedLeases() string {
	leases := path.Dir(p.leasePath())
	for _, r := range p.present() {
		if r.proxy.Open(fault.Match{Path: leases, Query: map[string]string{"watch": "true"}}) > 0 {
			return leases
		}
	}
	return ""
}

// leasePath is where requests about the Lease go.
func (p *Prover) leasePath() string {
	key := p.subject.Promises.Lease
	return fmt.Sprintf("/apis/%s/namespaces/%s/leases/%s", coordinationv1.SchemeGroupVersion, key.Namespace, key.Name)
}

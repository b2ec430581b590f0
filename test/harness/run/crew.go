package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
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
	err := r.leave()
	p.mu.Lock()
	p.replicas = slices.DeleteFunc(p.replicas, func(o *replica) bool { return o == r })
	p.retired = append(p.retired, r.lived()...)
	p.mu.Unlock()
	return errors.Join(err, r.proxy.Close())
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

// lives are the processes that ran at a time or later.
func (p *Prover) lives(since time.Time) []history.Replica {
	p.mu.Lock()
	all := slices.Clone(p.retired)
	p.mu.Unlock()
	for _, r := range p.present() {
		all = append(all, r.lived()...)
	}
	return slices.DeleteFunc(all, func(r history.Replica) bool { return !r.Ended.IsZero() && r.Ended.Before(since) })
}

func (p *Prover) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	key, lease := p.subject.Promises.Lease, &coordinationv1.Lease{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, lease); err != nil {
		return nil, fmt.Errorf("reading the Lease: %w", err)
	}
	return lease, nil
}

// holder is the Pod that holds the Lease, as history.Terms reads it; "" is nobody.
func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// leasePath is where requests about the Lease go.
func (p *Prover) leasePath() string {
	key := p.subject.Promises.Lease
	return fmt.Sprintf("/apis/%s/namespaces/%s/leases/%s", coordinationv1.SchemeGroupVersion, key.Namespace, key.Name)
}

package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
	"leasehold.dev/test/performance/environment"
)

const (
	// patience is how long anything may take that has nothing to do with a Lease.
	patience = 2 * time.Minute
	poll     = 50 * time.Millisecond
	// writers is how many Tenants are made at once.
	writers = 4
	// logLines is how many lines of the log of a failed replica are reported.
	logLines = 15
)

// pair are two replicas on a control plane of their own, each behind a proxy.
type pair struct {
	subject     subject
	setting     setting
	environment *environment.Environment
	proxies     []*fault.Proxy // of the replicas, in their order
	load        *load
	outside     *outside // nil unless the leader calls an S3 server
	clock       clock.WithTicker
	random      *rand.Rand
	// lost are replicas that were stopped on purpose and not started again, and gaveUp how
	// many have ended otherwise.
	lost   *env.Replica
	gaveUp int
}

// startPair starts a control plane with two replicas that are ready. It has to be stopped.
func startPair(ctx context.Context, s subject, with setting, c clock.WithTicker,
	random *rand.Rand) (_ *pair, err error) {
	p := &pair{subject: s, setting: with, clock: c, random: random}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting two replicas of %s: %w", s.name, err), p.stop(context.WithoutCancel(ctx)))
		}
	}()
	var refused error
	p.environment, err = environment.Start(ctx, s.checkout, environment.Options{
		Replicas: 2, Args: with.args(),
		Connect: func(config *rest.Config) {
			proxy, err := newProxy(config, c)
			if err != nil {
				refused = errors.Join(refused, err)
				return
			}
			proxy.Connect(config)
			p.proxies = append(p.proxies, proxy)
		},
	})
	return p, errors.Join(err, refused)
}

// newProxy returns one that passes watches on as they come: it is to cost little.
func newProxy(config *rest.Config, c clock.Clock) (*fault.Proxy, error) {
	o, err := fault.APIOptions(config)
	if err != nil {
		return nil, err
	}
	o.Kubernetes, o.Clock = false, c
	return fault.NewProxy(o)
}

func (p *pair) stop(ctx context.Context) error {
	var errs []error
	if p.outside != nil {
		errs = append(errs, p.outside.stop())
	}
	if p.environment != nil {
		errs = append(errs, p.environment.Stop(ctx))
	}
	for _, proxy := range p.proxies {
		errs = append(errs, proxy.Close())
	}
	return errors.Join(errs...)
}

// populate makes Tenants and waits until all of them are Ready.
func (p *pair) populate(ctx context.Context, with plan) error {
	n := with.tenants
	p.load = &load{client: p.environment.Client, clock: p.clock}
	var all errgroup.Group
	all.SetLimit(writers)
	for i := range n {
		t := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%03d", i)}, Spec: v1beta1.TenantSpec{
			Namespaces: []v1beta1.NamespaceSuffix{"dev"}, Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}},
		}}
		p.load.tenants = append(p.load.tenants, t.Name)
		// A replica that has just lost the Lease, on a busy machine, takes its webhooks with it.
		all.Go(func() error {
			return environment.Await(ctx, poll, patience, "admission of "+t.Name, func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(p.environment.Client.Create(ctx, t.DeepCopy()))
			})
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("making Tenants: %w", err)
	}
	return environment.Await(ctx, poll, patience, "all Tenants to be Ready", func(ctx context.Context) error {
		return p.environment.TenantsReady(ctx, n)
	})
}

// rest counts the requests of the election while nothing happens.
func (p *pair) rest(ctx context.Context, window time.Duration) (rates electionRates, err error) {
	leader, err := p.settle(ctx)
	if err != nil {
		return rates, err
	}
	begin, err := record.End(p.environment.Plane.AuditLog())
	if err != nil {
		return rates, err
	}
	from := p.clock.Now()
	if err := p.pass(ctx, window); err != nil {
		return rates, err
	}
	to := p.clock.Now()
	// What was received by then is written down when it is answered.
	if err := p.pass(ctx, time.Second); err != nil {
		return rates, err
	}
	events, _, err := record.ReadAuditLogFrom(p.environment.Plane.AuditLog(), begin)
	if err != nil {
		return rates, err
	}
	return ratesOf(events, leader.Name(), from, to, p.setting.retry), nil
}

// settle starts replicas that do not run, waits until both replicas are ready and the Lease
// is renewed, and returns the leader.
func (p *pair) settle(ctx context.Context) (leader *env.Replica, err error) {
	before := ""
	err = environment.Await(ctx, poll, patience, "two replicas and a Lease that is renewed",
		func(ctx context.Context) error {
			for _, r := range p.environment.Installation.Replicas() {
				if err := p.revive(r); err != nil {
					return err
				}
				if err := r.Ready(ctx); err != nil {
					return err
				}
			}
			now, err := p.environment.Leader(ctx)
			if err != nil {
				return err
			}
			lease, err := leasehold.ElectionLease(ctx, p.environment.Client)
			switch {
			case err != nil:
				return err
			case now == nil:
				return errors.New("no replica leads")
			case now != leader:
				leader, before = now, lease.ResourceVersion
			}
			if lease.ResourceVersion == before {
				return errors.New("the Lease is as it was")
			}
			return nil
		})
	return leader, err
}

// revive starts a replica that has ended. One that was not lost on purpose has given
// up by itself.
func (p *pair) revive(r *env.Replica) error {
	if r.Running() {
		return nil
	}
	if r != p.lost {
		p.gaveUp++
	}
	p.lost = nil
	return r.Restart()
}

// proxyOf is what a replica reaches the API server through.
func (p *pair) proxyOf(r *env.Replica) *fault.Proxy {
	for i, other := range p.environment.Installation.Replicas() {
		if other == r {
			return p.proxies[i]
		}
	}
	return nil
}

// pass lets a time go by.
func (p *pair) pass(ctx context.Context, d time.Duration) error {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

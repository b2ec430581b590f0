package counts

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/stage"
)

const (
	// fleet is how many objects there are of each kind.
	fleet, quickFleet = 20, 4
	// syncPeriod is how often the operator looks at what has not changed, once it was
	// started anew: long enough for it to come to rest in between.
	syncPeriod = "2s"
)

// fleet is what the operator does about objects that are as desired, when only it
// has changed itself.
func (p *play) fleet(ctx context.Context) error {
	size := fleet
	if p.bench.Quick {
		size = quickFleet
	}
	if err := p.converge(ctx, size); err != nil {
		return err
	}
	all := func(ctx context.Context) error {
		for _, controller := range controllers {
			if err := p.passes(controller, size)(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return p.play(ctx, []phase{
		{"fleet.restart", 1, []act{then(p.restart, all)}},
		{"fleet.resync", 1, []act{p.looked(size, "tenant", "markdownview")}},
		{"fleet.failover", 1, []act{then(p.failOver, all)}},
	})
}

// converge makes the fleet.
func (p *play) converge(ctx context.Context, size int) error {
	p.bench.Say("counts: making a fleet of %d objects of each kind", size)
	var objects []client.Object
	var acts []act
	for n := range size {
		name := fmt.Sprintf("fleet-%d", n)
		v := newView(name)
		acts = append(acts, p.outside(name))
		objects = append(objects, v, newTenant(name, v1beta1.NamespaceRetain, suffixes{"a", "b"}),
			p.newBucket(name, v1beta1.BucketObserve, v1beta1.BucketRetain))
	}
	for _, o := range objects {
		acts = append(acts, p.create(o))
	}
	for _, o := range objects {
		if v, ok := o.(*v1beta1.MarkdownView); ok {
			acts = append(acts, then(p.observed(v), p.rolledOut(v.Name)))
		}
	}
	for _, o := range objects {
		acts = append(acts, p.ready(o))
	}
	for _, act := range append(acts, p.rest) {
		if err := act(ctx); err != nil {
			return fmt.Errorf("making the fleet: %w", err)
		}
	}
	return nil
}

// restart has all replicas end and starts two others, which look more often.
func (p *play) restart(ctx context.Context) error {
	replicas := p.stage.Installation.Replicas()
	p.killed = replicas
	errs := make([]error, len(replicas))
	var ended sync.WaitGroup
	for n, r := range replicas {
		ended.Go(func() { _, errs[n] = r.Stop(ctx) })
	}
	ended.Wait()
	for n, err := range errs {
		if err != nil {
			return fmt.Errorf("stopping %s: %w", replicas[n].Name(), err)
		}
	}
	for range replicas {
		_, err := p.stage.Installation.Start(ctx, func(o *env.ReplicaOptions) {
			args := o.Args
			o.Args = func(ports env.ReplicaPorts) []string {
				return slices.Concat(args(ports), []string{"--tenant-sync-period=" + syncPeriod, "--markdownview-sync-period=" + syncPeriod})
			}
		})
		if err != nil {
			return err
		}
	}
	return p.stage.AwaitReady(ctx)
}

// failOver kills the leader and waits for another.
func (p *play) failOver(ctx context.Context) error {
	leader, err := p.stage.AwaitLeader(ctx)
	if err != nil {
		return err
	}
	p.killed = append(p.killed, leader)
	leader.Kill()
	if _, err := leader.Wait(ctx); err != nil {
		return fmt.Errorf("waiting for %s to be dead: %w", leader.Name(), err)
	}
	return p.stage.AwaitReady(ctx)
}

// passes waits until the leader, which has just begun, has made so many passes: it
// has looked at everything then.
func (p *play) passes(controller string, least int) act {
	return func(ctx context.Context) error {
		return p.await(ctx, "the first look of the controller "+controller, func(ctx context.Context) error {
			leader, err := p.stage.Leader(ctx)
			if err != nil || leader == nil {
				return fmt.Errorf("nobody leads: %w", err)
			}
			metrics, err := stage.ReadMetrics(ctx, leader)
			if err != nil {
				return err
			}
			if n := int(metrics.Sum(reconciles, map[string]string{"controller": controller})); n < least {
				return fmt.Errorf("%s has made %d passes, fewer than there are objects: %d", leader.Name(), n, least)
			}
			return nil
		})
	}
}

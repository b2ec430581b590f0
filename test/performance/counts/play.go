package counts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/performance/stage"
)

const (
	// patience is how long the operator may take to reach what is desired, and then to
	// come to rest.
	patience = time.Minute
	poll     = 25 * time.Millisecond
	// quiet is how long the operator has to have done nothing to be at rest: much
	// longer than it puts a pass off when its cache is late (200 ms).
	quiet = 500 * time.Millisecond
)

// elections are short, so that a leader that was killed has a successor soon, and
// long enough for a leader on a machine that is busy with other things to renew.
var elections = []string{
	"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms",
}

// reconciles is the metric that counts passes.
const reconciles = "controller_runtime_reconcile_total"

// controllers are those of the operator, as its metrics name them.
var controllers = []string{"tenant", "storagebucket", "markdownview"}

// play is a run of the story.
type play struct {
	bench stage.Bench
	stage *stage.Stage
	s3    *env.S3Server
	// killed are the replicas that the story itself has ended.
	killed []*env.Replica

	// events is all of the audit log up to the bookmark.
	events   []auditv1.Event
	bookmark record.Bookmark
	spans    []span
}

// begin sets the stage.
func begin(ctx context.Context, b stage.Bench) (_ *play, err error) {
	p := &play{bench: b}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("setting the stage to count: %w", err), p.end(context.WithoutCancel(ctx)))
		}
	}()
	b.Say("counts: starting a control plane, two replicas and an S3 server")
	if p.s3, err = env.StartS3(ctx, env.S3Options{}); err != nil {
		return nil, err
	}
	p.stage, err = stage.Start(ctx, b.Checkout, stage.Options{
		Replicas: 2,
		Args:     elections,
		Plane: env.Options{
			// Bodies of all that is written tell what changed something.
			AuditGroups: []string{"", "apps"},
			Controllers: slices.DeleteFunc(slices.Clone(env.DefaultControllers), func(name string) bool {
				return name == "namespace-controller" // played by the story
			}),
		},
	})
	if err != nil {
		return nil, err
	}
	if err := p.rest(ctx); err != nil {
		return nil, err
	}
	return p, p.furnish(ctx)
}

func (p *play) end(ctx context.Context) error {
	var errs []error
	if p.stage != nil {
		errs = append(errs, p.keep())
		errs = append(errs, p.stage.Stop(ctx))
	}
	if p.s3 != nil {
		errs = append(errs, p.s3.Stop())
	}
	return errors.Join(errs...)
}

// phase is a part of the story that is counted.
type phase struct {
	name    string
	changes int // from outside
	acts    []act
}

// play plays phases, with the operator at rest after each act.
func (p *play) play(ctx context.Context, phases []phase) error {
	for _, next := range phases {
		if err := p.count(ctx, next); err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
	}
	return nil
}

func (p *play) count(ctx context.Context, next phase) error {
	p.bench.Say("counts: %s", next.name)
	began, from := p.bench.Clock.Now(), len(p.events)
	before, err := p.reconciled(ctx)
	if err != nil {
		return err
	}
	for _, act := range next.acts {
		if err := act(ctx); err != nil {
			return err
		}
		if err := p.rest(ctx); err != nil {
			return err
		}
	}
	after, err := p.reconciled(ctx)
	if err != nil {
		return err
	}
	p.spans = append(p.spans, span{
		phase: next, from: from, to: len(p.events),
		reconciles: after.since(before), took: p.bench.Clock.Since(began),
	})
	return nil
}

// await asks until there is no error.
func (p *play) await(ctx context.Context, what string, ask func(context.Context) error) error {
	return stage.Await(ctx, poll, patience, what, ask)
}

// rest waits until the operator has nothing to do and has done nothing for a while:
// no request that is counted, no pass, no work waiting.
func (p *play) rest(ctx context.Context) error {
	last, before := p.bench.Clock.Now(), passes(nil)
	return p.await(ctx, "the operator to rest", func(ctx context.Context) error {
		events, end, err := record.ReadAuditLogFrom(p.stage.Plane.AuditLog(), p.bookmark)
		if err != nil {
			return err
		}
		p.events, p.bookmark = append(p.events, events...), end
		now, err := p.reconciled(ctx)
		if err != nil {
			return err
		}
		if len(ours(events)) > 0 || now.busy() || before == nil || now.sum() != before.sum() {
			last = p.bench.Clock.Now()
		}
		before = now
		if still := p.bench.Clock.Since(last); still < quiet {
			return fmt.Errorf("it was busy %v ago", still)
		}
		return nil
	})
}

// work is what a replica has done and has to do.
type work struct {
	passes map[string]int // by controller
	queued int
}

// passes are the replicas that run, by name.
type passes map[string]work

// reconciled asks all replicas; it is an error if one has ended that was not to.
func (p *play) reconciled(ctx context.Context) (passes, error) {
	all := passes{}
	for _, r := range p.stage.Installation.Replicas() {
		if slices.Contains(p.killed, r) {
			continue
		}
		if !r.Running() {
			return nil, fmt.Errorf("%s has ended by itself, so what is counted would be of its end too:\n%s", r.Name(), r.LogTail(5))
		}
		metrics, err := stage.ReadMetrics(ctx, r)
		if err != nil {
			return nil, err
		}
		w := work{passes: map[string]int{}}
		for _, c := range controllers {
			w.passes[c] = int(metrics.Sum(reconciles, map[string]string{"controller": c}))
			// A standby's queue is full of what it would do.
			if metrics.Sum("leader_election_master_status", map[string]string{"name": stage.Lease}) == 1 {
				w.queued += int(metrics.Sum("workqueue_depth", map[string]string{"name": c}) +
					metrics.Sum("controller_runtime_active_workers", map[string]string{"controller": c}))
			}
		}
		all[r.Name()] = w
	}
	return all, nil
}

func (all passes) busy() bool {
	for _, w := range all {
		if w.queued > 0 {
			return true
		}
	}
	return false
}

func (all passes) sum() int {
	sum := 0
	for _, w := range all {
		for _, n := range w.passes {
			sum += n
		}
	}
	return sum
}

// since is what was done since then, by controller. What has ended since is not known.
func (all passes) since(before passes) map[string]int {
	done := map[string]int{}
	for name, w := range all {
		for c, n := range w.passes {
			done[c] += n - before[name].passes[c]
		}
	}
	return done
}

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// twins are two processes that act and do not know of each other: P16.
func twins(ctx context.Context, a *armed) error {
	if a.plan.Variant == scenario.VariantUnelected {
		return a.addUnelected(ctx)
	}
	if a.prover.subject.Previous != "" {
		// Whatever becomes of the run, the next one is about this build.
		a.tidies = append(a.tidies, func() error { return a.roll(context.WithoutCancel(ctx), unlike{}, isPrevious) })
		if err := a.roll(ctx, unlike{binary: a.prover.subject.Previous, build: previous}, anyBuild); err != nil {
			return err
		}
	}
	a.strike(ctx, blow{fault.AfterAnswer, (*armed).upgrade})
	return nil
}

// addUnelected runs one more replica, which acts without being elected, beside the
// others until the end.
func (a *armed) addUnelected(ctx context.Context) error {
	arguments := a.prover.subject.Unelected
	if len(arguments) == 0 {
		return errors.New("the subject does not say how a replica acts without being elected")
	}
	began := a.now()
	r, err := a.prover.add(ctx, unlike{args: arguments, build: fmt.Sprint(arguments)})
	if err != nil {
		return err
	}
	a.tidies = append(a.tidies, func() error {
		a.tellUnelected(r, began)
		return a.prover.remove(context.WithoutCancel(ctx), r)
	})
	return a.isReady(ctx, r)
}

// tellUnelected says what a replica did that nobody has elected.
func (a *armed) tellUnelected(r *replica, began time.Time) {
	wrote, refused := 0, 0
	for _, request := range r.proxy.Journal().Mutating() {
		if request.Status == 0 || !a.leads(request) {
			continue
		}
		wrote++
		if !request.Committed() {
			refused++
		}
	}
	if wrote == 0 {
		a.missing("replica %s, which was not elected, tried to change nothing", r.process.Name())
		return
	}
	a.noted(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(), Unelected: true,
		Detail: fmt.Sprintf("it acted without being elected: it sent %d writes, of which %d were refused", wrote, refused),
	})
}

// isReady waits until a replica is.
func (a *armed) isReady(ctx context.Context, r *replica) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		last = r.process.Ready(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for replica %s: %w", r.process.Name(), errors.Join(err, last))
	}
	return nil
}

// leads reports whether a request is one that only a leader may make.
func (a *armed) leads(r fault.Request) bool {
	info := aboutOf(r)
	if info == nil || r.Path == a.prover.leasePath() {
		return false
	}
	about := history.Resource{Group: info.APIGroup, Resource: info.Resource}
	return !slices.Contains(a.prover.subject.Promises.AnyReplica, about)
}

// upgrade replaces the replicas by others, one after another, as a Deployment does
// when its template has changed: the new one is ready before the old one is asked to
// stop. Where there is no other build they are of the same.
func (a *armed) upgrade(ctx context.Context, r *replica, held *fault.Held) error {
	began := a.now()
	held.Release()
	build := "of the same build"
	if a.prover.subject.Previous != "" {
		build = "from the previous build to this one"
	}
	if err := a.roll(ctx, unlike{}, anyBuild); err != nil {
		return err
	}
	a.noted(history.Fault{
		Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("rolled over at %s by %s, %s", held.Request, r.process.Name(), build),
	})
	return nil
}

// previous is what the history calls the other build.
const previous = "previous"

func anyBuild(*replica) bool     { return true }
func isPrevious(r *replica) bool { return r.build == previous }

// roll replaces replicas, one after another.
func (a *armed) roll(ctx context.Context, u unlike, which func(*replica) bool) error {
	for _, old := range a.prover.present() {
		if !which(old) {
			continue
		}
		r, err := a.prover.add(ctx, u)
		if err == nil {
			err = a.isReady(ctx, r)
		}
		if err == nil {
			err = a.prover.remove(ctx, old)
		}
		if err != nil {
			return fmt.Errorf("replacing replica %s: %w", old.process.Name(), err)
		}
	}
	return nil
}

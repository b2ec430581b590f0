package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// changedFor is how long an object of the installation stays changed.
const changedFor = 3 * time.Second

// installationChange changes a flag or an object of the installation before the target's step.
type installationChange struct{}

func (i installationChange) begin(ctx context.Context, a *activeFault) error {
	n := slices.IndexFunc(a.prover.subject.Changes, func(c Change) bool { return c.Name == a.plan.Target.Path })
	if n < 0 {
		return fmt.Errorf("looking for the change %s: the subject has none of that name", a.plan.Target.Path)
	}
	change := a.prover.subject.Changes[n]
	if change.Fault() != a.plan.Fault {
		return fmt.Errorf("looking for the change %s: it is a %s", change.Name, change.Fault())
	}
	return a.beforeAction(func() {
		var err error
		if change.Flag != "" {
			err = i.changeFlag(ctx, a, change)
		} else {
			err = i.changeObject(ctx, a, change)
		}
		if err != nil {
			a.handleChangeError(ctx, fmt.Errorf("changing the installation by %s: %w", change.Name, err))
		}
	})
}

// changeFlag rolls all replicas over to another flag, as a Deployment does, and back. Meanwhile it
// checks again what users may do.
func (installationChange) changeFlag(ctx context.Context, a *activeFault, c Change) error {
	began := a.now()
	replaced, err := a.rollOut(ctx, replicaOverrides{args: []string{c.Flag}, build: c.Flag})
	if err == nil {
		err = a.prover.waitUntilReady(ctx)
	}
	if err == nil {
		err = a.execution.waitForIdle(ctx, a.now(), a.now().Add(recoveryTimeout))
	}
	if err == nil {
		err = a.execution.recheckAccess(ctx, a.plan.ID())
	}
	// The next run needs the installation as it ships, however this one ended.
	back := a.replaceReplicas(context.WithoutCancel(ctx), replicaOverrides{},
		func(r *replica) bool { return r.build == c.Flag })
	if err := errors.Join(err, back, a.prover.waitUntilReady(ctx)); err != nil {
		return err
	}
	a.record(history.Fault{
		// With another flag the operator may need rights that it does not ship with.
		Began: began, Ended: a.now(), Denies: true, Detail: fmt.Sprintf("%d replicas ran with %s", replaced, c.Flag),
	})
	return nil
}

// changeObject changes an object, and restores it while the scenario goes on.
func (installationChange) changeObject(ctx context.Context, a *activeFault, c Change) error {
	o, err := a.prover.objectOf(*c.Object)
	if err != nil {
		return err
	}
	before, err := o.get(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	after, err := c.apply(ctx, o, before)
	if err != nil {
		return err
	}
	if after.GetResourceVersion() == before.GetResourceVersion() {
		a.setVoidReason("%s had no effect on %s", c.Name, o.key)
		return nil
	}
	ended := a.beginOngoing()
	a.tasks.Go(func() {
		defer ended()
		a.sleep(ctx, changedFor)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout)
		defer cancel()
		restored, err := o.restore(last, before)
		if err != nil {
			a.addError(fmt.Errorf("restoring %s: %w", o.key, err))
			return
		}
		by := "the operator"
		if restored {
			by = "the end of the fault"
		}
		ended := a.now()
		a.record(history.Fault{
			Began: began, Ended: ended, Denies: c.Without != nil,
			Detail: fmt.Sprintf("%s was changed by %s and restored by %s; %d requests of the operator were forbidden meanwhile",
				o.key, c.Name, by, a.forbidden(began, ended)),
		})
	})
	return nil
}

// forbidden counts the requests of the replicas that were forbidden in a period.
func (a *activeFault) forbidden(from, to time.Time) int {
	n := 0
	for _, r := range a.prover.running() {
		for _, request := range r.proxy.Journal().Requests {
			if request.Status == http.StatusForbidden && !request.Received.Before(from) && !request.Received.After(to) {
				n++
			}
		}
	}
	return n
}

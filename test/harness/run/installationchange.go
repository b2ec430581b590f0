package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// Changes of the operator's installation at run time.
const (
	// FlagChange restarts all replicas with another flag, and then without it.
	FlagChange scenario.FaultName = "flag-change"
	// RuleChange removes a right and restores it.
	RuleChange scenario.FaultName = "rule-change"
)

// changeTarget is the method of a target that is a change of the installation. The path is the
// change's name. The number counts the steps that act; the change begins before that step.
const changeTarget = "CHANGE"

var flagChange = spec{
	fault: FlagChange, family: "installation",
	text:   "before STEP all replicas are restarted, one after another, with the flag of the change COLLECTION, and then without it",
	derive: eachChange, newInjector: stateless(installationChange{}),
}

var ruleChange = spec{
	fault: RuleChange, family: "installation",
	text:   "for 3 s from STEP on, the operator lacks the right of the change COLLECTION",
	derive: eachChange, newInjector: stateless(installationChange{}),
}

// eachChange plans each change of that fault in the scenario before a step that the seed selects. A
// change of a flag prefers a step after an expected access: restarted replicas must not revoke it.
func eachChange(d *derivation, f scenario.FaultName) []Plan {
	steps, claimed := d.actions()
	if f == FlagChange && len(claimed) > 0 {
		steps = claimed
	}
	var plans []Plan
	for _, change := range d.runs[0].Changes {
		here := len(change.Scenarios) == 0 || slices.Contains(change.Scenarios, d.scenario.Name)
		if change.Fault() != f || !here || len(steps) == 0 {
			continue
		}
		var possible []Plan
		for _, nth := range steps {
			possible = append(possible, d.plan(f, "", Target{Method: changeTarget, Path: change.Name, Nth: nth}))
		}
		plans = append(plans, d.one(possible))
	}
	return plans
}

// actions returns the numbers of the steps that act, without the first, and of those that follow
// an expected access. Clean runs leave attacks out, so these do not count.
func (d *derivation) actions() (after, claimed []int) {
	n, claims := 0, false
	for _, step := range d.scenario.Steps {
		if !step.Acts() {
			claims = claims || step.May != nil
			continue
		}
		n++
		if step.Attack != nil {
			continue
		}
		if n > 1 {
			after = append(after, n)
		}
		if claims {
			claimed = append(claimed, n)
		}
		claims = false
	}
	return after, claimed
}

// changedFor is the time for which the operator lacks a permission.
const changedFor = 3 * time.Second

// installationChange changes a flag or a right of the operator before the target's step.
type installationChange struct{}

func (i installationChange) begin(ctx context.Context, a *activeFault) error {
	n := slices.IndexFunc(a.prover.subject.Changes, func(c InstallationChange) bool {
		return c.Name == a.plan.Target.Path
	})
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
			err = i.removeRight(ctx, a, change)
		}
		if err != nil {
			a.handleChangeError(ctx, fmt.Errorf("changing the installation by %s: %w", change.Name, err))
		}
	})
}

// changeFlag rolls all replicas over to another flag, as a Deployment does, and back. Meanwhile it
// checks again what users may do.
func (installationChange) changeFlag(ctx context.Context, a *activeFault, c InstallationChange) error {
	began := a.now()
	replaced, err := a.rollOut(ctx, replicaOverrides{args: []string{c.Flag}, build: c.Flag})
	if err == nil {
		err = a.prover.waitUntilReady(ctx)
	}
	if err == nil {
		err = a.execution.waitForIdle(ctx, scenario.Quiesce{}, a.now(), a.now().Add(recoveryTimeout))
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
	a.record(history.FaultRecord{
		// With another flag the operator may need rights that it does not ship with.
		Began: began, Ended: a.now(), Denies: true, Detail: fmt.Sprintf("%d replicas ran with %s", replaced, c.Flag),
	})
	return nil
}

// removeRight removes a permission from a role, and restores it while the scenario continues.
func (installationChange) removeRight(ctx context.Context, a *activeFault, c InstallationChange) error {
	o, err := a.prover.objectOf(*c.Object)
	if err != nil {
		return err
	}
	before, err := o.get(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	after, err := c.removeRight(ctx, o, before)
	if err != nil {
		return err
	}
	if after.GetResourceVersion() == before.GetResourceVersion() {
		a.setVoidReason("%s had no effect on %s", c.Name, o.key)
		return nil
	}
	a.goOngoing(func() {
		a.sleep(ctx, changedFor)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout)
		defer cancel()
		if err := o.restore(last, before); err != nil {
			a.addError(fmt.Errorf("restoring %s: %w", o.key, err))
			return
		}
		ended := a.now()
		a.record(history.FaultRecord{
			Began: began, Ended: ended, Denies: true,
			Detail: fmt.Sprintf("%s was changed by %s for %s; %d requests of the operator were forbidden meanwhile",
				o.key, c.Name, changedFor, a.forbidden(began, ended)),
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

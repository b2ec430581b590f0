package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// stepTarget is the method of a target that is a step of the scenario.
const stepTarget = "STEP"

var finalizerOfAnother = spec{
	fault: "foreign-finalizer", family: "environment",
	text:   "before a user deletes an object, another controller puts a finalizer on it, and takes it off a while after the operator's own is gone",
	derive: eachDeletion, newInjector: stateless(foreignFinalizer{}),
}

func eachDeletion(d *derivation, f scenario.FaultName) []Plan {
	var plans []Plan
	for i, step := range d.scenario.Steps {
		if step.Delete != nil {
			plans = append(plans, d.plan(f, "", Target{Method: stepTarget, Path: step.Name, Nth: i + 1}))
		}
	}
	return plans
}

const (
	// heldFor is the time for which a foreign finalizer keeps an object that the operator has released.
	heldFor = 2 * time.Second
	// foreignFinalizerName is the finalizer of another controller.
	foreignFinalizerName = "rival.example.com/held"
)

// foreignFinalizer puts a finalizer of another controller on an object before a user deletes it. A
// goroutine removes it some time after the operator has removed its own.
type foreignFinalizer struct{}

func (f foreignFinalizer) begin(ctx context.Context, a *activeFault) error {
	n := a.plan.Target.Nth - 1
	if n < 0 || n >= len(a.scenario.Steps) || a.scenario.Steps[n].Delete == nil {
		return fmt.Errorf("looking for the deleted object: step %d of scenario %s deletes nothing", n+1, a.scenario.Name)
	}
	a.beforeStep[n] = func(stepCtx context.Context) error {
		o, err := a.prover.objectOf(*a.scenario.Steps[n].Delete)
		if err == nil {
			err = o.finalizers(stepCtx, func(all []string) []string { return append(all, foreignFinalizerName) })
		}
		if err != nil {
			return err
		}
		a.tasks.Go(func() {
			began := a.now()
			held, err := f.release(ctx, a, o)
			switch {
			case err != nil:
				a.handleChangeError(ctx, fmt.Errorf("taking the foreign finalizer off %s: %w", o.key, err))
			case held:
				a.record(history.FaultRecord{Began: began, Ended: a.now(),
					Detail: fmt.Sprintf("a foreign finalizer held %s for %s", o.key, heldFor)})
			}
		})
		return nil
	}
	return nil
}

// release waits until no other finalizer holds the object, for as long as the scenario runs. It
// removes the foreign finalizer in any case.
func (foreignFinalizer) release(ctx context.Context, a *activeFault, o object) (held bool, err error) {
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		now, err := o.get(ctx)
		if err != nil {
			return false, err
		}
		return now.GetDeletionTimestamp() != nil && slices.Equal(now.GetFinalizers(), []string{foreignFinalizerName}), nil
	})
	if err == nil {
		held = true
		a.sleep(ctx, heldFor)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout)
	defer cancel()
	let := o.finalizers(last, func(all []string) []string {
		return slices.DeleteFunc(all, func(name string) bool { return name == foreignFinalizerName })
	})
	return held, errors.Join(err, let)
}

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/attack"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// hostileAttack lets a hostile user act in the plan's step. execution.drive runs the attack when it
// reaches that step.
type hostileAttack struct{}

func (hostileAttack) inject(ctx context.Context, a *activeFault) error {
	n := a.plan.Target.Nth - 1
	if n < 0 || n >= len(a.scenario.Steps) || a.scenario.Steps[n].Attack == nil {
		return fmt.Errorf("looking for the attack: step %d of scenario %s is none", n+1, a.scenario.Name)
	}
	a.background = make(chan func(context.Context), 1)
	a.tasks.Go(func() {
		select {
		case do := <-a.background:
			do(ctx)
		case <-ctx.Done():
		}
	})
	return nil
}

// isAttack reports whether the step is the plan's attack. A clean run has none.
func (a *activeFault) isAttack(step int) bool {
	return a != nil && a.plan.Perturbation == scenario.Hostile && a.plan.Target.Nth == step+1
}

// attack acts as the hostile user. An attack that works by lasting goes on beside the scenario.
func (t *execution) attack(ctx context.Context, step scenario.Step) error {
	holes := blackHoles{prover: t.prover}
	t.activeFault.cleanups = append(t.activeFault.cleanups, holes.close)
	steps, err := t.attackSteps(ctx, step, &holes)
	if err != nil {
		return err
	}
	t.activeFault.cleanups = append(t.activeFault.cleanups,
		func() error { return t.cleanUpAttack(context.WithoutCancel(ctx), steps) })
	c, err := t.clientOf(ctx, step)
	if err != nil {
		return err
	}
	touched, err := t.alteredKeys(step)
	if err != nil {
		return err
	}
	if step.Attack.Name == attack.HighChurn {
		t.activeFault.background <- func(ctx context.Context) { t.runAttack(ctx, c, step, steps, touched) }
		return nil
	}
	t.runAttack(ctx, c, step, steps, touched)
	return nil
}

// alteredKeys returns the key of the object that the attack alters, if it alters one.
func (t *execution) alteredKeys(step scenario.Step) ([]history.Key, error) {
	ref := step.Attack.Object
	if ref == nil {
		return nil, nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := t.prover.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", ref, err)
	}
	return []history.Key{{
		Resource:  history.Resource{Group: gvk.Group, Resource: mapping.Resource.Resource},
		Namespace: ref.Namespace, Name: ref.Name,
	}}, nil
}

// attackSteps generates the steps of an attack from the objects as they are now.
func (t *execution) attackSteps(ctx context.Context, step scenario.Step, holes *blackHoles) ([]scenario.Step, error) {
	in := attack.Input{Attack: *step.Attack}
	var err error
	if in.Name == attack.DeadEndpoint {
		n := in.Endpoints
		if n == 0 {
			n = max(1, in.Count)
		}
		if in.BlackHoles, err = holes.open(ctx, n); err != nil {
			return nil, err
		}
	}
	for _, of := range []struct {
		ref *scenario.Ref
		to  **unstructured.Unstructured
	}{{in.Object, &in.Victim}, {in.Attack.Owner, &in.Owner}} {
		if of.ref == nil {
			continue
		}
		o := objectOf(*of.ref)
		if err := t.prover.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return nil, fmt.Errorf("reading what is attacked: %w", err)
		}
		*of.to = o
	}
	return attack.Steps(in)
}

// runAttack performs the steps of an attack in order until the run ends. A refusal by the API
// server is a defence that works, and no error.
func (t *execution) runAttack(ctx context.Context, c client.Client, step scenario.Step, steps []scenario.Step,
	touched []history.Key) {
	a := t.activeFault
	began, accepted := a.now(), 0
	var last error
	for _, s := range steps {
		if ctx.Err() != nil {
			break
		}
		if last = t.retryStep(ctx, c, s); last == nil {
			accepted++
		}
	}
	if accepted == 0 {
		a.setVoidReason("nothing of the attack was accepted: %v", last)
		return
	}
	a.record(history.Fault{
		Began: began, Ended: a.now(), Attack: true, Touched: touched,
		Detail: fmt.Sprintf("%s by %s: %d of %d accepted", step.Attack.Name, step.As, accepted, len(steps)),
	})
}

// cleanUpAttack deletes the objects of an attack before the next run.
func (t *execution) cleanUpAttack(ctx context.Context, steps []scenario.Step) error {
	var made []scenario.Ref
	for _, step := range steps {
		if step.Apply == nil {
			continue
		}
		if ref := refOf(&unstructured.Unstructured{Object: step.Apply}); !slices.Contains(made, ref) {
			made = append(made, ref)
		}
	}
	var errs []error
	for _, ref := range made {
		errs = append(errs, client.IgnoreNotFound(t.prover.client.Delete(ctx, objectOf(ref))))
	}
	end := t.prover.clock.Now().Add(defaultTimeout)
	for _, ref := range made {
		if _, err := t.waitFor(ctx, end.Sub(t.prover.clock.Now()), scenario.Wait{Object: ref, Gone: true}); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("retracting an attack: %w", err)
	}
	return nil
}

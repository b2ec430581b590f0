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

// armAttack finds the step that the plan is about: P19. The driver does it when its
// turn comes.
func armAttack(ctx context.Context, a *armed) error {
	n := a.plan.Target.Nth - 1
	if n < 0 || n >= len(a.scenario.Steps) || a.scenario.Steps[n].Attack == nil {
		return fmt.Errorf("looking for the attack: step %d of scenario %s is none", n+1, a.scenario.Name)
	}
	a.background = make(chan func(context.Context), 1)
	a.all.Go(func() {
		select {
		case do := <-a.background:
			do(ctx)
		case <-ctx.Done():
		}
	})
	return nil
}

// attacks reports whether the step is the attack that the plan is about. Without a
// plan there is none.
func (a *armed) attacks(step int) bool {
	return a != nil && a.plan.Perturbation == scenario.Hostile && a.plan.Target.Nth == step+1
}

// attack does what a hostile user does. What only takes its effect by lasting goes on
// while the scenario does.
func (t *trial) attack(ctx context.Context, step scenario.Step) error {
	var holes blackHoles
	t.armed.tidies = append(t.armed.tidies, holes.close)
	steps, err := t.prepare(ctx, step, &holes)
	if err != nil {
		return err
	}
	t.armed.tidies = append(t.armed.tidies, func() error { return t.retract(context.WithoutCancel(ctx), steps) })
	c, err := t.clientOf(ctx, step)
	if err != nil {
		return err
	}
	touched, err := t.altered(step)
	if err != nil {
		return err
	}
	if step.Attack.Name == attack.HighChurn {
		t.armed.background <- func(ctx context.Context) { t.assault(ctx, c, step, steps, touched) }
		return nil
	}
	t.assault(ctx, c, step, steps, touched)
	return nil
}

// altered returns the key of the object that the attack alters, if it alters one.
func (t *trial) altered(step scenario.Step) ([]history.Key, error) {
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

// prepare generates the steps of an attack from what there is now.
func (t *trial) prepare(ctx context.Context, step scenario.Step, holes *blackHoles) ([]scenario.Step, error) {
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

// assault does the steps of an attack, in order, until the run ends. What the API
// server refuses is a defence that works.
func (t *trial) assault(ctx context.Context, c client.Client, step scenario.Step, steps []scenario.Step, touched []history.Key) {
	a := t.armed
	began, accepted := a.now(), 0
	var last error
	for _, s := range steps {
		if ctx.Err() != nil {
			break
		}
		if last = t.persist(ctx, c, s); last == nil {
			accepted++
		}
	}
	if accepted == 0 {
		a.missing("nothing of the attack was accepted: %v", last)
		return
	}
	a.noted(history.Fault{
		Began: began, Ended: a.now(), Attack: true, Touched: touched,
		Detail: fmt.Sprintf("%s by %s: %d of %d accepted", step.Attack.Name, step.As, accepted, len(steps)),
	})
}

// retract deletes what an attack has made, so that the next run does not meet it.
func (t *trial) retract(ctx context.Context, steps []scenario.Step) error {
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
	end := t.prover.clock.Now().Add(patience)
	for _, ref := range made {
		if _, err := t.reach(ctx, end.Sub(t.prover.clock.Now()), scenario.Wait{Object: ref, Gone: true}); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("retracting an attack: %w", err)
	}
	return nil
}

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const (
	// user is the field manager of the scenario's users.
	user = client.FieldOwner("scenario")
	// patience is how long a user goes on trying, and how long is waited where the
	// scenario does not say.
	patience = time.Minute
)

// drive does what the steps of a filled scenario say and returns the marks. What
// is not reached in time is for the invariants; an error is the harness's own.
func (t *trial) drive(ctx context.Context, s scenario.Scenario) ([]history.Mark, error) {
	var marks []history.Mark
	t.users.known = s.Users
	for i, step := range s.Steps {
		err := t.armed.step(ctx, i)
		if step.Acts() {
			t.acted = append(t.acted, t.prover.clock.Now())
			if step.Attack == nil {
				t.standing = nil
			}
		}
		switch {
		case err != nil:
		case step.Quiesce != nil:
			var mark history.Mark
			if mark, err = t.quiesce(ctx, step.Name, *step.Quiesce); err == nil {
				marks = append(marks, mark)
			}
		case step.Wait != nil:
			_, err = t.reach(ctx, within(step.Wait.Within), *step.Wait)
		case step.May != nil:
			err = t.expects(ctx, step)
		case step.Attack != nil:
			if t.armed.attacks(i) {
				err = t.attack(ctx, step)
			}
		default:
			err = t.outcome(step, t.act(ctx, step))
		}
		if err != nil {
			return marks, fmt.Errorf("doing step %d %s of scenario %s: %w", i+1, step.Name, s.Name, err)
		}
	}
	return marks, nil
}

func within(d metav1.Duration) time.Duration {
	if d.Duration == 0 {
		return patience
	}
	return d.Duration
}

// act does what a user does. What the user makes is removed after the run.
func (t *trial) act(ctx context.Context, step scenario.Step) error {
	c, err := t.clientOf(ctx, step)
	if err != nil {
		return err
	}
	if step.Apply != nil {
		if ref := refOf(&unstructured.Unstructured{Object: step.Apply}); !slices.Contains(t.touched, ref) {
			t.touched = append(t.touched, ref)
		}
	}
	return t.persist(ctx, c, step)
}

// persist tries again what a user does: while replicas die, admission may not answer.
func (t *trial) persist(ctx context.Context, c client.Client, step scenario.Step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		last = t.try(ctx, c, step)
		if refused(last) {
			return false, last // it will not become right
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (t *trial) try(ctx context.Context, c client.Client, step scenario.Step) error {
	switch {
	case step.Apply != nil:
		o := &unstructured.Unstructured{Object: step.Apply}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), user, client.ForceOwnership)
	case step.Patch != nil:
		body, err := json.Marshal(step.Patch.Merge)
		if err != nil {
			return fmt.Errorf("encoding the patch of %s: %w", step.Patch.Object, err)
		}
		return c.Patch(ctx, objectOf(step.Patch.Object), client.RawPatch(types.MergePatchType, body), user)
	case step.External != nil:
		return t.external(ctx, step)
	case step.Delete != nil:
		return client.IgnoreNotFound(c.Delete(ctx, objectOf(*step.Delete)))
	}
	return errors.New("the step has no action")
}

func objectOf(r scenario.Ref) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

func refOf(o *unstructured.Unstructured) scenario.Ref {
	return scenario.Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// reach waits for all of it and reports whether it came in time.
func (t *trial) reach(ctx context.Context, timeout time.Duration, all ...scenario.Wait) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, poll, true, func(ctx context.Context) (bool, error) {
		for _, w := range all {
			if reached, err := t.reached(ctx, w); err != nil || !reached {
				return false, err
			}
		}
		return true, nil
	})
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() == nil && limited.Err() != nil:
		return false, nil // the time is up
	}
	return false, err
}

func (t *trial) reached(ctx context.Context, w scenario.Wait) (bool, error) {
	o := objectOf(w.Object)
	err := t.prover.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return w.Gone, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", w.Object, err)
	}
	return w.Met(o), nil
}

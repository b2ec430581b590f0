// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// defaultTimeout bounds retries and waits for which the scenario has no timeout.
	defaultTimeout = time.Minute
)

// runSteps performs the steps of a scenario and returns its checkpoints. A state that is not
// reached in time is for the invariants; an error is the harness's own.
func (ex *execution) runSteps(ctx context.Context, s scenario.Scenario) ([]history.Checkpoint, error) {
	var marks []history.Checkpoint
	ex.scenario = s
	for i, step := range s.Steps {
		var err error
		ex.activeFault.beginStep(i)
		if step.Acts() {
			ex.actionTimes = append(ex.actionTimes, ex.prover.clock.Now())
		}
		switch {
		case step.Quiesce != nil:
			var mark history.Checkpoint
			if mark, err = ex.quiesce(ctx, step.Name, *step.Quiesce); err == nil {
				mark.Like, mark.Hasty, mark.Busy = step.Quiesce.Like, s.IsHasty(i), step.Quiesce.Busy
				marks = append(marks, mark)
			}
		case step.Wait != nil:
			_, err = ex.waitFor(ctx, cmp.Or(step.Wait.Within.Duration, defaultTimeout), *step.Wait)
		case step.Sleep.Duration > 0:
			err = sleep(ctx, ex.prover.clock, step.Sleep.Duration)
		case step.May != nil:
			err = ex.checkAccess(ctx, step)
		case step.Attack != nil:
			err = ex.attack(ctx, i, step)
		default:
			err = ex.recordOutcome(fmt.Sprintf("step %d %s", i+1, step.Name), step, ex.perform(ctx, step))
		}
		if err != nil {
			return marks, fmt.Errorf("doing step %d %s of scenario %s: %w", i+1, step.Name, s.Name, err)
		}
	}
	return marks, nil
}

// perform performs a step. The objects that it creates are deleted after the run.
func (ex *execution) perform(ctx context.Context, step scenario.Step) error {
	c, err := ex.clientOf(ctx, step)
	if err != nil {
		return err
	}
	if ref := step.Changed(); step.Apply != nil && !slices.Contains(ex.created, ref) {
		ex.created = append(ex.created, ref)
	}
	return ex.retryStep(ctx, c, step)
}

// retryStep retries a step: while replicas die, admission webhooks may not answer. It returns the
// last answer of the API server, if there was one.
func (ex *execution) retryStep(ctx context.Context, c client.Client, step scenario.Step) error {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := ex.tryStep(ctx, c, step)
		if ctx.Err() == nil || !isAnswer(last) {
			last = err
		}
		// What was rejected before is not there, and will not be.
		if isRefusal(last) || apierrors.IsNotFound(last) && len(ex.rejections) > 0 {
			return false, last // it will not become right
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (ex *execution) tryStep(ctx context.Context, c client.Client, step scenario.Step) error {
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
	case step.Scale != nil:
		body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, *step.Scale.Replicas)
		return c.SubResource("scale").Patch(ctx, objectOf(step.Scale.Object),
			client.RawPatch(types.MergePatchType, body), user)
	case step.External != nil && ex.prover.external == nil:
		return errors.New("the subject has nothing outside the cluster")
	case step.External != nil:
		what, thing := step.Change()
		return ex.prover.external.Do(ctx, what, thing)
	case step.Delete != nil:
		return deleteCurrent(ctx, c, objectOf(*step.Delete))
	}
	return errors.New("the step has no action")
}

// deleteCurrent deletes an object at the version that it reads, and if that fails at any version.
// Without a version in the request the API server may remove an object to which a finalizer is
// added concurrently, which no operator can prevent.
func deleteCurrent(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err == nil {
		version := o.GetResourceVersion()
		err = c.Delete(ctx, o, client.Preconditions{ResourceVersion: &version}, propagation(o))
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, o, propagation(o)))
}

// propagation is the one of kubectl, unless a finalizer of the object selects another. The API server's
// default for a Job is to orphan its Pods.
func propagation(o *unstructured.Unstructured) client.PropagationPolicy {
	switch {
	case slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents):
		return client.PropagationPolicy(metav1.DeletePropagationOrphan)
	case slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents):
		return client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}

func objectOf(r scenario.Ref) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

// waitFor waits until all conditions are met and reports whether they were in time.
func (ex *execution) waitFor(ctx context.Context, timeout time.Duration, all ...scenario.Wait) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, pollInterval, true, func(ctx context.Context) (bool, error) {
		for _, w := range all {
			switch met, _, err := ex.check(ctx, w); {
			case isUnavailable(err):
				return false, nil
			case err != nil || !met:
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

func (ex *execution) unmet(ctx context.Context, all []scenario.Wait) ([]string, error) {
	var texts []string
	for _, w := range all {
		met, o, err := ex.check(ctx, w)
		switch {
		case isUnavailable(err):
			texts = append(texts, fmt.Sprintf("%s; %v", w, err))
		case err != nil:
			return nil, err
		case !met:
			texts = append(texts, w.Unmet(o))
		}
	}
	return texts, nil
}

// isUnavailable reports whether the API server could not read an object because the operator, which converts it, did
// not answer: a fault has just killed it.
func isUnavailable(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "conversion webhook")
}

// check reports whether a condition is met. It returns also the object, which is nil if it does not
// exist.
func (ex *execution) check(ctx context.Context, w scenario.Wait) (bool, *unstructured.Unstructured, error) {
	o := objectOf(w.Object)
	err := ex.prover.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return w.Gone, nil, nil
	case err != nil:
		return false, nil, fmt.Errorf("reading %s: %w", w.Object, err)
	}
	return w.Met(o), o, nil
}

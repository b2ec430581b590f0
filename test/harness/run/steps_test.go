// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/scenario"
)

func TestRunSteps(t *testing.T) {
	g := NewWithT(t)
	failures := 2
	run := newExecution(t, interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch,
		o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		if failures--; failures >= 0 {
			return errors.New("the webhook does not answer")
		}
		return c.Apply(ctx, o, opts...)
	}})
	ref := refTo("a")
	gone := scenario.Wait{Object: ref, Gone: true}
	apply := scenario.Step{Apply: applied("a")}
	apply.Apply["data"] = map[string]any{"x": "1"}
	patch := scenario.Step{Patch: &scenario.Patch{Object: ref, Merge: map[string]any{"data": map[string]any{"y": "2"}}}}
	marks, err := run.runSteps(t.Context(), scenario.Scenario{Name: "s", Steps: []scenario.Step{apply, patch}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(marks).To(BeEmpty())
	g.Expect(run.configMap(t, "a")).To(HaveField("Data", Equal(map[string]string{"x": "1", "y": "2"})))

	t.Log("what does not come about is not the harness's fault")
	there, err := run.waitFor(t.Context(), 100*time.Millisecond, gone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(there).To(BeFalse())

	t.Log("deleting twice is deleting, and what was made is cleared up")
	_, err = run.runSteps(t.Context(),
		scenario.Scenario{Name: "s", Steps: []scenario.Step{{Delete: &ref}, {Delete: &ref}, {Wait: &gone}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.perform(t.Context(), apply)).To(Succeed())
	g.Expect(run.cleanUp(t.Context())).To(Succeed())
	there, err = run.waitFor(t.Context(), time.Second, gone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(there).To(BeTrue())
}

// refusesApply answers each apply with an error.
func refusesApply(err error) interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return err
		},
	}
}

func TestRunSteps_NamesTheFailedStep(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, refusesApply(errors.New("connection refused")))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := run.runSteps(ctx, scenario.Scenario{Name: "s", Steps: []scenario.Step{{Name: "wrong", Apply: applied("a")}}})
	g.Expect(err).To(MatchError(And(ContainSubstring("doing step 1 wrong of scenario s"),
		ContainSubstring("connection refused"))))
}

// denial is the API server's response when a webhook denies a request with a code.
func denial(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: `admission webhook "v.example.com" denied the request: not today`,
	}}
}

// A denial by a webhook is the step's outcome, and the scenario continues.
func TestRunSteps_RecordsRejections(t *testing.T) {
	undeclared := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
		Message: "failed to create typed patch object (ns/a; v1, Kind=ConfigMap): .not today: field not declared in schema"}}
	for name, answer := range map[string]error{
		"Forbidden": denial(403), "Conflict": denial(409), "InternalError": denial(500), "NoSuchField": undeclared,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := newExecution(t, refusesApply(answer))
			ref := refTo("a")
			began := time.Now()
			_, err := run.runSteps(t.Context(), scenario.Scenario{Name: "s", Steps: []scenario.Step{
				{Name: "create", Apply: applied("a")},
				{Name: "change", Patch: &scenario.Patch{Object: ref, Merge: map[string]any{"data": map[string]any{"y": "2"}}}},
				{Name: "delete", Delete: &ref},
			}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(run.rejections).To(HaveExactElements(
				And(HaveField("Step", "step 1 create"), HaveField("Object", "ConfigMap ns/a"),
					HaveField("Message", ContainSubstring("not today"))),
				And(HaveField("Step", "step 2 change"), HaveField("Message", ContainSubstring("not found"))),
			))
			g.Expect(time.Since(began)).To(BeNumerically("<", defaultTimeout), "it was not tried again")

			run.prover.stopAtRefusal = true
			run.names = map[string]string{"thing": "a"}
			_, err = run.runSteps(t.Context(), scenario.Scenario{Name: "s", Steps: []scenario.Step{
				{Name: "create", Apply: applied("a")}, {Name: "delete", Delete: &ref},
			}})
			var refused *RefusedError
			g.Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
			g.Expect(refused.Step).To(Equal("step 1 create"))
		})
	}
}

func TestCleanUp_RecordsRejections(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object,
		opts ...client.DeleteOption) error {
		if o.GetName() == "b" {
			return denial(403)
		}
		return c.Delete(ctx, o, opts...)
	}})
	for _, name := range []string{"a", "b"} {
		g.Expect(run.perform(t.Context(), scenario.Step{Apply: applied(name)})).To(Succeed())
	}
	g.Expect(run.cleanUp(t.Context())).To(Succeed())
	g.Expect(run.rejections).To(HaveExactElements(And(HaveField("Step", ""), HaveField("Object", "ConfigMap ns/b"))))
	gone, _, err := run.check(t.Context(), scenario.Wait{Object: refTo("a"), Gone: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gone).To(BeTrue())
}

func TestUnmet(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{})
	g.Expect(run.perform(t.Context(), scenario.Step{Apply: applied("a")})).To(Succeed())
	g.Expect(run.unmet(t.Context(), []scenario.Wait{
		{Object: refTo("a"), Gone: true}, {Object: refTo("b"), Gone: true}, {Object: refTo("a"), Condition: "Ready"},
	})).To(HaveExactElements("ConfigMap ns/a to be gone", "ConfigMap ns/a to have Ready=True"))
}

// The API server cannot read an object that a killed operator converts. A wait goes on; other errors are the harness's.
func TestWaitFor_ObjectsThatTheOperatorConverts(t *testing.T) {
	g := NewWithT(t)
	conversion := apierrors.NewInternalError(errors.New("conversion webhook failed: unexpected EOF"))
	failures, failure := 2, error(conversion)
	run := newExecution(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
		o client.Object, opts ...client.GetOption) error {
		if failures > 0 {
			failures--
			return failure
		}
		return c.Get(ctx, key, o, opts...)
	}})
	g.Expect(run.perform(t.Context(), scenario.Step{Apply: applied("a")})).To(Succeed())
	exists := scenario.Wait{Object: refTo("a"), Exists: true}
	g.Expect(run.waitFor(t.Context(), testTimeout, exists)).To(BeTrue())
	g.Expect(failures).To(BeZero())

	failures = 1_000_000
	g.Expect(run.waitFor(t.Context(), 3*pollInterval, exists)).To(BeFalse())
	g.Expect(run.unmet(t.Context(), []scenario.Wait{exists})).To(HaveExactElements(
		ContainSubstring("ConfigMap ns/a to exist; reading ConfigMap ns/a: Internal error occurred: conversion webhook failed")))
	for _, failure = range []error{denial(403), errors.New("connection refused"),
		apierrors.NewInternalError(errors.New("etcdserver: request timed out"))} {
		_, err := run.waitFor(t.Context(), testTimeout, exists)
		g.Expect(err).To(MatchError(failure))
		_, err = run.unmet(t.Context(), []scenario.Wait{exists})
		g.Expect(err).To(MatchError(failure))
	}
}

func TestRunSteps_SleepsByTheClockAndScales(t *testing.T) {
	g := NewWithT(t)
	var scaled, body string
	run := newExecution(t, interceptor.Funcs{SubResourcePatch: func(_ context.Context, _ client.Client, sub string,
		o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
		data, err := p.Data(o)
		scaled, body = o.GetName()+"/"+sub, string(data)
		return err
	}})
	stopped := clocktesting.NewFakeClock(time.Now())
	run.prover.clock = stopped
	ref := refTo("web")
	steps := []scenario.Step{
		{Sleep: metav1.Duration{Duration: time.Hour}},
		{Scale: &scenario.Scale{Object: ref, Replicas: new(int32(3))}},
	}
	done := inBackground(func() error {
		_, err := run.runSteps(t.Context(), scenario.Scenario{Name: "s", Steps: steps})
		return err
	})
	advance(t, stopped, time.Hour-time.Second)
	g.Expect(done).NotTo(Receive())
	g.Expect(scaled).To(BeEmpty())
	advance(t, stopped, time.Second)
	g.Eventually(done, testTimeout).Should(Receive(BeNil()))
	g.Expect(scaled).To(Equal("web/scale"))
	g.Expect(body).To(MatchJSON(`{"spec": {"replicas": 3}}`))
}

// Jobs are deleted with their Pods, as kubectl does.
func TestDelete_PropagatesAsKubectl(t *testing.T) {
	for finalizer, want := range map[string]metav1.DeletionPropagation{
		"":                               metav1.DeletePropagationBackground,
		metav1.FinalizerOrphanDependents: metav1.DeletePropagationOrphan,
		metav1.FinalizerDeleteDependents: metav1.DeletePropagationForeground,
	} {
		o := objectOf(refTo("a"))
		o.SetFinalizers([]string{finalizer})
		if got := propagation(o); string(got) != string(want) {
			t.Errorf("the propagation with the finalizer %q is %s, not %s", finalizer, got, want)
		}
	}
}

// A finalizer that is added while a user deletes the object is respected.
func TestDelete_WaitsForAFinalizerAddedMeanwhile(t *testing.T) {
	g := NewWithT(t)
	conflicts := 0
	run := newExecution(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object,
		opts ...client.DeleteOption) error {
		options := (&client.DeleteOptions{}).ApplyOptions(opts)
		if options.Preconditions != nil && options.Preconditions.ResourceVersion != nil && conflicts == 0 {
			conflicts++
			held := objectOf(refTo("a"))
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`))
			g.Expect(c.Patch(ctx, held, patch)).To(Succeed())
			return apierrors.NewConflict(corev1.Resource("configmaps"), "a", errors.New("the object has been modified"))
		}
		return c.Delete(ctx, o)
	}})
	g.Expect(run.perform(t.Context(), scenario.Step{Apply: applied("a")})).To(Succeed())
	ref := refTo("a")
	g.Expect(run.perform(t.Context(), scenario.Step{Delete: &ref})).To(Succeed())
	g.Expect(conflicts).To(Equal(1), "the request names the version")
	g.Expect(run.configMap(t, "a")).To(HaveField("DeletionTimestamp", Not(BeNil())))
}

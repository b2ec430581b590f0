// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
)

func config(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "uid",
		ResourceVersion: version}}
}

// Only a Conflict is no error. An error keeps its cause, with a text of bounded length.
func TestFinish(t *testing.T) {
	result, failure := ctrl.Result{RequeueAfter: 7}, errors.New("it failed")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", failure)
	for name, tc := range map[string]struct {
		err, want error
		result    ctrl.Result
	}{
		"success":    {nil, nil, result},
		"a conflict": {fmt.Errorf("writing status: %w", conflict), nil, ctrl.Result{RequeueAfter: 200 * time.Millisecond}},
		"not found":  {apierrors.NewNotFound(schema.GroupResource{}, "a"), apierrors.NewNotFound(schema.GroupResource{}, "a"), ctrl.Result{}},
		"another":    {failure, failure, ctrl.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Finish(result, tc.err)
			if got != tc.result || (err == nil) != (tc.want == nil) || err != nil && err.Error() != tc.want.Error() {
				t.Errorf("Finish() = %v, %v, want %v, %v", got, err, tc.result, tc.want)
			}
		})
	}
	long := fmt.Errorf("%s: %w", strings.Repeat("x", 5000), failure)
	if _, err := Finish(result, long); !errors.Is(err, failure) || len(err.Error()) > 1000 {
		t.Errorf("Finish() = an error of %d bytes, want its cause and at most 1000", len(err.Error()))
	}
}

// An error is reported and returned, unless the status says nothing of it. A Conflict of the report does not hide it,
// and an object that is gone needs no report.
func TestFail(t *testing.T) {
	boom, gone := errors.New("boom"), apierrors.NewNotFound(schema.GroupResource{}, "a")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", nil)
	for name, tc := range map[string]struct {
		err, report, with error
		reported          bool
	}{
		"reported":           {boom, nil, nil, true},
		"a Conflict":         {fmt.Errorf("reading: %w", conflict), boom, nil, false},
		"canceled":           {fmt.Errorf("reading: %w", context.Canceled), boom, nil, false},
		"out of time":        {fmt.Errorf("reading: %w", context.DeadlineExceeded), nil, nil, true},
		"a Conflict follows": {boom, fmt.Errorf("writing status: %w", conflict), nil, true},
		"the object is gone": {boom, fmt.Errorf("writing status: %w", gone), nil, true},
		"not to be reported": {boom, errors.ErrUnsupported, errors.ErrUnsupported, true},
	} {
		reported := false
		got := Fail(tc.err, func() error {
			reported = true
			return tc.report
		})
		if reported != tc.reported || !errors.Is(got, tc.err) || tc.with != nil && !errors.Is(got, tc.with) ||
			tc.with == nil && got.Error() != tc.err.Error() {
			t.Errorf("%s: %v, reported: %t, want %t with %v", name, got, reported, tc.reported, tc.with)
		}
	}
}

// The error of a step is retried, unless it ends by a change that the operator watches. A Conflict is retried first.
func TestErrors(t *testing.T) {
	boom, conflict := errors.New("boom"), apierrors.NewConflict(schema.GroupResource{}, "a", nil)
	var e Errors
	for _, err := range []error{nil, failure.New(failure.Foreign, "not ours"), boom} {
		e.Record(err)
	}
	if got := e.Join(nil); !errors.Is(got, boom) || len(e.Failed) != 1 || e.Retry != nil {
		t.Errorf("%+v, joined %v, want one error to retry", e, got)
	}
	if got := e.Join(errors.ErrUnsupported); !errors.Is(got, errors.ErrUnsupported) {
		t.Errorf("after an error of the report: %v", got)
	}
	e.Record(conflict)
	if _, err := Finish(ctrl.Result{}, e.Join(nil)); err != nil || len(e.Failed) != 1 {
		t.Errorf("after a Conflict: %v, %+v", err, e)
	}
	if got := (&Errors{}).Join(nil); got != nil {
		t.Errorf("without an error: %v", got)
	}
}

// Slim leaves no room of what it drops: a deleted entry would keep its place in memory.
func TestSlim(t *testing.T) {
	o := config("5")
	o.Finalizers = append(slices.Repeat([]string{"x/y"}, 1000), "ours")
	o.Annotations = map[string]string{v1beta1.AnnotationPaused: "true", "note": "x"}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	for range 2 {
		Slim(o, "ours")
		if !slices.Equal(o.Finalizers, []string{"ours"}) || cap(o.Finalizers) > 1 || o.ManagedFields != nil ||
			!maps.Equal(o.Annotations, map[string]string{v1beta1.AnnotationPaused: "true"}) {
			t.Errorf("it keeps %+v, with room for %d finalizers", o.ObjectMeta, cap(o.Finalizers))
		}
	}
	if Slim(o, "another"); o.Finalizers != nil {
		t.Errorf("without a finalizer of ours: %q", o.Finalizers)
	}
}

func TestRateLimiter(t *testing.T) {
	limiter, request := RateLimiter(FirstRetry), reconcile.Request{}
	for _, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		if got := limiter.When(request); got != want {
			t.Errorf("a pause of %s, want %s", got, want)
		}
	}
	for range 100 {
		limiter.When(request)
	}
	if got := limiter.When(request); got != time.Minute {
		t.Errorf("the longest pause is %s, want a minute", got)
	}
}

// An event requires a reconcile if the spec, the pause or the request has changed, be it the first such change or a
// later one.
func TestChanged(t *testing.T) {
	with := func(annotations ...string) *corev1.ConfigMap {
		o := config("5")
		for i := 0; i < len(annotations); i += 2 {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, annotations[i], annotations[i+1])
		}
		return o
	}
	spec, label := with(), with()
	spec.Generation, label.Labels = 1, map[string]string{"a": "b"}
	const paused, requested = "leasehold.dev/paused", "leasehold.dev/requested-at"
	for name, tc := range map[string]struct {
		before, after *corev1.ConfigMap
		want          bool
	}{
		"nothing":                    {with(), with(), false},
		"the spec":                   {with(), spec, true},
		"a label":                    {with(), label, false},
		"another annotation":         {with(paused, "true", requested, "1"), with(paused, "true", requested, "1", "a", "b"), false},
		"a pause":                    {with(), with(paused, "true"), true},
		"the same pause":             {with(paused, "true"), with(paused, "true"), false},
		"a pause that is false":      {with(), with(paused, "false"), false},
		"a pause of any value":       {with(), with(paused, "yes"), true},
		"the end of a pause":         {with(paused, "true"), with(), true},
		"a pause that becomes false": {with(paused, "true"), with(paused, "false"), true},
		"a request":                  {with(), with(requested, "1"), true},
		"the same request":           {with(requested, "1"), with(requested, "1"), false},
		"a second request":           {with(requested, "1"), with(requested, "2"), true},
		"a request while paused":     {with(paused, "true", requested, "1"), with(paused, "true", requested, "2"), true},
		"a pause after a request":    {with(requested, "1"), with(paused, "true", requested, "1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Changed.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("it requires a reconcile: %t, want %t", got, tc.want)
			}
		})
	}
}

// The key pauses whatever users write for "on", and also what they may mean as "off".
func TestPaused(t *testing.T) {
	if Paused(config("5")) {
		t.Error("an object without the annotation is paused")
	}
	for _, value := range []string{"true", "True", "TRUE", "yes", "1", "", " ", "true ", "0", "no", "False", "false ", "false"} {
		o := config("5")
		o.Annotations = map[string]string{"leasehold.dev/paused": value}
		if got := Paused(o); got != (value != "false") {
			t.Errorf("the value %q pauses: %t", value, got)
		}
	}
}

// Two values that differ anywhere are two requests, and each fits into a status.
func TestRequestedAt(t *testing.T) {
	seen := map[string]bool{}
	values := []string{"", "now", strings.Repeat("é", 128), strings.Repeat("é", 129), strings.Repeat("é", 129) + "a",
		strings.Repeat("x", 1000) + "a", strings.Repeat("x", 1000) + "b"}
	for _, value := range values {
		o := config("5")
		o.Annotations = map[string]string{"leasehold.dev/requested-at": value}
		got := RequestedAt(o)
		short := utf8.RuneCountInString(value) <= 128
		if utf8.RuneCountInString(got) > 128 || seen[got] || short && got != value ||
			!short && !strings.HasPrefix(got, "sha256:") {
			t.Errorf("the request %.10q... is %q", value, got)
		}
		seen[got] = true
	}
}

// An object that has changed since it was read is not acted on: by its version, or by its spec alone.
func TestVerify(t *testing.T) {
	stored := config("5")
	stored.Generation = 2
	reader := fake.NewClientBuilder().WithObjects(stored).Build()
	judged := func(version string, generation int64, uid types.UID) *corev1.ConfigMap {
		o := config(version)
		o.Generation, o.UID = generation, uid
		return o
	}
	missing := judged("5", 2, "uid")
	missing.Name = "b"
	for name, tc := range map[string]struct {
		judged        *corev1.ConfigMap
		version, spec bool // whether it has changed
	}{
		"the same":            {judged("5", 2, "uid"), false, false},
		"another version":     {judged("4", 2, "uid"), true, false},
		"another spec":        {judged("4", 1, "uid"), true, true},
		"another of the name": {judged("5", 2, "other"), true, true},
		"gone":                {missing, true, true},
	} {
		for _, by := range []struct {
			same    func(_, _ client.Object) bool
			changed bool
		}{{SameVersion, tc.version}, {SameSpec, tc.spec}} {
			err := Verify(t.Context(), reader, tc.judged, &corev1.ConfigMap{}, by.same)
			if apierrors.IsConflict(err) != by.changed || (err != nil) != by.changed {
				t.Errorf("%s: %v, want a conflict: %t", name, err, by.changed)
			}
		}
	}
	terminating := config("5")
	terminating.DeletionTimestamp = new(metav1.Now())
	if SameSpec(config("5"), terminating) {
		t.Error("an object that is being deleted is acted on")
	}
}

func TestNextDue(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const period = 10 * time.Minute
	buckets := map[int]int{}
	for i := range 1000 {
		uid := types.UID(fmt.Sprintf("uid-%d", i))
		due := NextDue(last, period, uid).Sub(last)
		if due < period || due > 11*time.Minute {
			t.Fatalf("%s is due after %s, want 10m and at most 1m more", uid, due)
		}
		if again := NextDue(last, period, uid).Sub(last); again != due {
			t.Fatalf("%s is due after %s and then after %s: the distance must not wander", uid, due, again)
		}
		buckets[int((due-period)/(6*time.Second))]++
	}
	// Ten slots of 6 s: a fleet of 1000 must not gather in any of them.
	for slot, n := range buckets {
		if n > 200 {
			t.Errorf("slot %d holds %d of 1000 objects: not spread", slot, n)
		}
	}
	if len(buckets) < 10 {
		t.Errorf("only %d of 10 slots are used", len(buckets))
	}
}

// The report of a reconcile that has used up its time has a limit of its own: without an answer it would hold a worker
// for ever.
func TestLateReportHasALimit(t *testing.T) {
	c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{SubResourcePatch: func(ctx context.Context,
		_ client.Client, _ string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		<-ctx.Done()
		began, after := time.Now(), config("5")
		after.Labels = map[string]string{"a": "b"}
		err := (&Base{Client: c}).Report(ctx, config("5"), after)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 10*time.Second {
			t.Errorf("%v after %s, want that its time is over after 10 s", err, took)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// deploymentStates yields all statuses of the Deployment of a view with 2 viewers.
func deploymentStates(yield func(d appsv1.DeploymentStatus, seen bool) bool) {
	for _, seen := range []bool{true, false} {
		for _, reason := range []string{"", "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded",
			"FailedCreate"} {
			for n := range int32(4 * 4 * 4) {
				d := appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: n % 4, UpdatedReplicas: n / 4 % 4,
					AvailableReplicas: n / 16}
				c := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
					Reason: reason, Message: "m"}
				if reason == "ProgressDeadlineExceeded" {
					c.Status = corev1.ConditionFalse
				}
				if reason == "FailedCreate" {
					c.Type = appsv1.DeploymentReplicaFailure
				}
				if reason != "" {
					d.Conditions = []appsv1.DeploymentCondition{c}
				}
				if !seen {
					d.ObservedGeneration = 2
				}
				if !yield(d, seen) {
					return
				}
			}
		}
	}
}

// For each combination of a Deployment's status and a result, the conditions agree with both and
// with each other.
func TestSummarize_every_rollout_and_result(t *testing.T) {
	type ending struct {
		name string
		plan plan
		res  *result
	}
	var endings []ending
	for _, child := range []kind{configMap, deployment, service} {
		for _, a := range []action{keep, update, wait, conflict} {
			for _, err := range []error{nil, errors.New("boom")} {
				end := ending{fmt.Sprint(child, a, err), plan{steps: []step{{kind: child, name: "x", action: a}}}, succeeded()}
				end.res.correct[child] = err == nil && (a == keep || a == update)
				end.res.wrote[child] = err == nil && a == update
				if err != nil {
					end.res.Failed = []error{err}
				}
				endings = append(endings, end)
			}
		}
	}
	endings = append(endings, ending{"invalid", plan{invalid: "x"}, &result{}})
	complete := 0
	for _, end := range endings {
		for d, seen := range deploymentStates {
			o := observationOf(d)
			got := summarize(o, end.plan, end.res, epoch)
			find := func(kind string) metav1.Condition { return reporting.FindCondition(got.Conditions, kind) }
			ready, degraded, stalled := find(v1beta1.ConditionReady), find(v1beta1.ConditionDegraded),
				find(v1beta1.ConditionStalled)
			violated := func(rule string) {
				t.Helper()
				t.Errorf("%s, Deployment %+v: %s\n%v", end.name, d, rule, conditionsOf(got))
			}
			rolledOut := seen && d.Replicas == 2 && d.UpdatedReplicas == 2 && d.AvailableReplicas == 2
			stuck := seen && !end.res.wrote[deployment] && len(d.Conditions) > 0 &&
				(d.Conditions[0].Status == corev1.ConditionFalse || d.Conditions[0].Type == appsv1.DeploymentReplicaFailure)
			settled := end.plan.invalid == "" && len(end.res.Failed)+len(end.plan.with(conflict, wait)) == 0 && !stuck
			isReady := ready.Status == metav1.ConditionTrue
			if isReady && !rolledOut {
				violated("Ready although viewers of other content are left, or not all serve")
			}
			if isReady != (settled && rolledOut && !end.res.wrote[deployment]) {
				violated("Ready must be True where all is as it should be, and only there")
			}
			if degraded.Status == metav1.ConditionTrue && (isReady || ready.Reason != degraded.Reason) {
				violated("Ready must have the reason of Degraded")
			}
			if stalled.Status == metav1.ConditionTrue && degraded.Status != metav1.ConditionTrue {
				violated("Stalled without Degraded")
			}
			if available := find(v1beta1.ConditionAvailable).Status == metav1.ConditionTrue; available &&
				(!seen || d.AvailableReplicas == 0) {
				violated("Available although no viewer serves")
			}
			o.view.Status = *got.DeepCopy()
			if !cmp.Equal(got, summarize(o, end.plan, end.res, epoch.Add(time.Hour))) {
				violated("an equal observation gives another status")
			}
			if isReady {
				complete++
			}
		}
	}
	if complete == 0 {
		t.Error("no combination is Ready")
	}
}

// observationOf returns the observation of a view with 2 viewers whose Deployment has this status.
func observationOf(d appsv1.DeploymentStatus) *observation {
	v := view()
	return &observation{view: v, want: children{hash: "h"}, deployment: &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 3, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(v, v1beta1.GroupVersion.WithKind("MarkdownView"))}}, Status: d}}
}

// A field of the status is that of a child only if the child is as desired after this reconcile.
// Otherwise the former value remains; a URL without a Service does not.
func TestStatusFollowsTheChildren(t *testing.T) {
	for child, field := range map[kind]struct{ name, now, otherwise string }{
		configMap:  {"ContentHash", hashOf(t, view()), "former"},
		deployment: {"ViewerImage", "v:1", "former"},
		service:    {"URL", "http://viewer-book.ns.svc", ""},
	} {
		for correct, want := range map[bool]string{true: field.now, false: field.otherwise} {
			o, res := appliedObservation(t, view()), succeeded()
			o.view.Status = v1beta1.MarkdownViewStatus{ContentHash: "former", ViewerImage: "former", URL: "former"}
			res.correct[child] = correct
			got := reflect.ValueOf(summarize(o, plan{}, res, epoch)).FieldByName(field.name).String()
			if got != want {
				t.Errorf("the %s is correct, %t: %s is %q, want %q", child, correct, field.name, got, want)
			}
		}
	}
	o := appliedObservation(t, view(image("")))
	if got := summarize(o, plan{}, succeeded(), epoch).ViewerImage; got != defaultImage {
		t.Errorf("the image of a view that names none is %q, want %q", got, defaultImage)
	}
}

// A correction is reported of a child that differs although the view is settled: reported, without a problem, for this
// spec and this default image.
func TestCorrectionsAreOfSettledViews(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*observation)
		want   int
	}{
		"settled":             {func(*observation) {}, 1},
		"another spec":        {func(o *observation) { o.view.Generation++ }, 0},
		"another content":     {func(o *observation) { o.want.hash = "other" }, 0},
		"another image":       {func(o *observation) { o.want.image = "other" }, 0},
		"without its Service": {func(o *observation) { o.view.Status.URL = "" }, 0},
		"with a problem": {func(o *observation) {
			setProblem(&o.view.Status, o.view, condition("", true, "Boom", ""), epoch)
		}, 0},
	} {
		o, res := appliedObservation(t, view()), succeeded()
		o.view.Status = summarize(o, plan{}, res, epoch)
		tc.change(o)
		res.wrote[service] = true
		p := plan{steps: []step{{kind: configMap, action: keep}, {kind: service, action: update}}}
		if got := corrections(o, p, res); len(got) != tc.want {
			t.Errorf("%s: %d corrections are reported, want %d: %+v", name, len(got), tc.want, got)
		}
	}
}

// Of several problems a view reports the one that no retry resolves.
func TestConflictIsReportedBeforeAFailure(t *testing.T) {
	p := plan{steps: []step{{kind: configMap, name: "markdowns-book", action: conflict}}}
	res := &result{Errors: reconciler.Errors{Failed: []error{errors.New("boom")}}}
	if got := problem(p, res, rollout{}); got.Reason != v1beta1.ReasonChildConflict {
		t.Errorf("%s is reported: %s; want %s", got.Reason, got.Message, v1beta1.ReasonChildConflict)
	}
}

// While the Deployment controller has not seen an update, the former viewers serve: a view that is Available stays so.
func TestUpdateLeavesAvailable(t *testing.T) {
	for _, serving := range []int32{0, 2} {
		o := observationOf(appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, AvailableReplicas: serving})
		o.view.Status = summarize(o, plan{}, succeeded(), epoch)
		before := reporting.FindCondition(o.view.Status.Conditions, v1beta1.ConditionAvailable)
		o.deployment.Generation++
		after := reporting.FindCondition(summarize(o, plan{}, succeeded(), epoch.Add(time.Hour)).Conditions,
			v1beta1.ConditionAvailable)
		if (before.Status == metav1.ConditionTrue) != (serving > 0) || after != before {
			t.Errorf("%d serve: Available %+v, after an update %+v", serving, before, after)
		}
	}
}

// The status repeats the request that was handled, even after an earlier one.
func TestRequestIsRepeated(t *testing.T) {
	o := appliedObservation(t, view())
	for _, request := range []string{"", "1", "2", "2", strings.Repeat("x", 129)} {
		o.view.Annotations = map[string]string{v1beta1.AnnotationRequestedAt: request}
		o.view.Status = summarize(o, plan{}, succeeded(), epoch)
		if got, want := o.view.Status.LastHandledReconcileAt, reconciler.RequestedAt(o.view); got != want {
			t.Errorf("after the request %q the status has %q, want %q", request, got, want)
		}
	}
}

// A pause changes nothing but its condition, which it sets once.
func TestPauseLeavesTheStatus(t *testing.T) {
	o := appliedObservation(t, view())
	o.view.Status = summarize(o, plan{}, succeeded(), epoch)
	o.view.Generation++
	o.view.Annotations = map[string]string{v1beta1.AnnotationRequestedAt: "1"}
	r := newRecording(t, o.view)
	stored := func() *v1beta1.MarkdownView {
		v := &v1beta1.MarkdownView{}
		if err := r.stored.Get(t.Context(), request.NamespacedName, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	pause := func(now time.Time) v1beta1.MarkdownViewStatus {
		r.Clock = testingclock.NewFakePassiveClock(now)
		if err := r.reportPaused(t.Context(), stored()); err != nil {
			t.Fatal(err)
		}
		return stored().Status
	}
	before := stored()
	got := pause(epoch)
	if again := pause(epoch.Add(time.Hour)); !cmp.Equal(got, again) {
		t.Errorf("it is reported again: %+v", again)
	}
	meta.RemoveStatusCondition(&got.Conditions, v1beta1.ConditionPaused)
	if diff := cmp.Diff(before.Status, got); diff != "" {
		t.Errorf("the rest of the status (-before +paused):\n%s", diff)
	}
}

func succeeded() *result {
	return &result{correct: map[kind]bool{configMap: true, deployment: true, service: true}, wrote: map[kind]bool{}}
}

// conditionsOf returns the conditions as "Status Reason" by type.
func conditionsOf(s v1beta1.MarkdownViewStatus) map[string]string {
	out := map[string]string{}
	for _, c := range s.Conditions {
		out[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
	}
	return out
}

// The API server refuses an event whose action is longer than 128 characters, or whose note is longer than 1,024 bytes.
func TestCorrectionsFitIntoEvents(t *testing.T) {
	o, res := appliedObservation(t, view()), succeeded()
	o.view.Status = summarize(o, plan{}, res, epoch)
	res.wrote[configMap] = true
	long := "data[" + strings.Repeat("a", 250) + ".md]"
	got := corrections(o, plan{steps: []step{{kind: configMap, name: "markdowns-book", action: update,
		differences: []string{long, long, long, long, long}}}}, res)
	if len(got) != 1 || len(got[0].Action) > 128 || len(got[0].Message) > 1024 {
		t.Errorf("want one event that fits: %+v", got)
	}
}

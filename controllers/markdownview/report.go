// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// blockedPeriod is the pause before a blocked view is reconciled again. The cache holds only
// objects with the operator's label, so no watch event reports the deletion of a foreign one.
const blockedPeriod = 30 * time.Second

// report records the events of changes, writes the status if it changed, and records events for the transitions. It
// returns the error that requires another reconcile.
func (r *Reconciler) report(ctx context.Context, o *observation, p plan, res *result) (ctrl.Result, error) {
	reporting.Flush(r.Recorder, o.view, res.events)
	if res.terminating {
		return ctrl.Result{}, nil
	}
	// An error that is no failure of the view is not in its status. After a Conflict a new view gets its first
	// status all the same; only then observe reads past the cache.
	if res.Retry != nil && (o.view.Status.ObservedGeneration > 0 || failure.Of(res.Retry) != failure.Changed) {
		return ctrl.Result{}, res.Retry
	}
	err := res.Join(r.write(ctx, o.view, summarize(o, p, res, r.Clock.Now()), p))
	if err == nil && len(p.with(wait, conflict)) > 0 {
		return ctrl.Result{RequeueAfter: blockedPeriod}, nil
	}
	return ctrl.Result{}, err
}

// reportPaused reports that an annotation suspends the view. It leaves the other conditions as they are.
func (r *Reconciler) reportPaused(ctx context.Context, v *v1beta1.MarkdownView) error {
	status := *v.Status.DeepCopy()
	reporting.SetPaused(&status.Conditions, v.Generation, r.Clock.Now(), "reconciliation of this MarkdownView is paused")
	return r.write(ctx, v, status, plan{})
}

// fail reports an error that prevented the reconcile, and returns it. It reports nothing new about the viewers.
func (r *Reconciler) fail(ctx context.Context, v *v1beta1.MarkdownView, err error) error {
	return reconciler.Fail(err, func() error {
		status := *v.Status.DeepCopy()
		status.ObservedGeneration = v.Generation
		setProblem(&status, v, metav1.Condition{Reason: failure.Of(err).Reason, Message: reporting.Bounded(err.Error())},
			r.Clock.Now())
		return r.write(ctx, v, status, plan{})
	})
}

// write writes a status that differs from the stored one, sets the metrics, and records the events of the change.
func (r *Reconciler) write(ctx context.Context, v *v1beta1.MarkdownView, status v1beta1.MarkdownViewStatus,
	p plan) error {
	after := v.DeepCopy()
	after.Status = status
	serves := meta.IsStatusConditionTrue(status.Conditions, v1beta1.ConditionAvailable)
	r.available.WithLabelValues(v.Namespace, v.Name).Set(map[bool]float64{true: 1}[serves])
	return r.Report(ctx, v, after, transitions(v, after, p)...)
}

// summarize returns the status after a reconcile. It is pure.
func summarize(o *observation, p plan, res *result, now time.Time) v1beta1.MarkdownViewStatus {
	v, status := o.view, *o.view.Status.DeepCopy()
	status.ObservedGeneration = v.Generation
	status.LastHandledReconcileAt = reconciler.RequestedAt(v)
	run := rolloutOf(o, res)
	known := run.absent || run.observed // an absent one has no replicas
	if known {
		status.Replicas, status.AvailableReplicas = run.replicas, run.available
	}
	if p.invalid == "" {
		status.Selector, status.URL = labels.SelectorFromSet(selectorFor(v)).String(), ""
		if res.correct[service] {
			status.URL = fmt.Sprintf("http://%s%s.%s.svc", viewerPrefix, v.Name, v.Namespace)
		}
		if res.correct[configMap] {
			status.ContentHash = o.want.hash
		}
		if res.correct[deployment] {
			status.ViewerImage = o.want.image
		}
	}
	set := func(c metav1.Condition) { reporting.SetCondition(&status.Conditions, v.Generation, now, c) }
	// Until the Deployment controller has observed a change, the previous viewers continue to serve.
	if known || reporting.FindCondition(status.Conditions, v1beta1.ConditionAvailable).Type == "" {
		set(availability(v, res, run))
	}
	if bad := problem(p, res, run); bad.Reason != "" {
		setProblem(&status, v, bad, now)
	} else {
		set(condition(v1beta1.ConditionDegraded, false, v1beta1.ReasonAsExpected, "no problem was found"))
		reporting.SetReady(&status.Conditions, v.Generation, now, ready(v, p, run))
	}
	reporting.SetCorrected(&status.Conditions, v.Generation, now, res.events)
	return status
}

// setProblem sets the conditions of a problem.
func setProblem(status *v1beta1.MarkdownViewStatus, v *v1beta1.MarkdownView, bad metav1.Condition, now time.Time) {
	reporting.SetCondition(&status.Conditions, v.Generation, now,
		condition(v1beta1.ConditionDegraded, true, bad.Reason, bad.Message))
	reporting.SetReady(&status.Conditions, v.Generation, now,
		condition(v1beta1.ConditionReady, false, bad.Reason, bad.Message))
}

// availability returns the Available condition.
func availability(v *v1beta1.MarkdownView, res *result, run rollout) metav1.Condition {
	const kind = v1beta1.ConditionAvailable
	switch {
	case run.absent && !res.wrote[deployment]:
		return condition(kind, false, v1beta1.ReasonNoReplicasAvailable, "the viewers have no Deployment")
	case !run.observed:
		return condition(kind, false, v1beta1.ReasonProgressing, "the viewers are starting")
	case run.available > 0:
		return condition(kind, true, v1beta1.ReasonReplicasAvailable, serving(v, run))
	case run.exceeded != "" || run.finished:
		return condition(kind, false, v1beta1.ReasonNoReplicasAvailable, serving(v, run))
	default:
		return condition(kind, false, v1beta1.ReasonProgressing, serving(v, run))
	}
}

// problem returns the problem that time alone does not resolve. The reason is "" if there is none.
func problem(p plan, res *result, run rollout) (bad metav1.Condition) {
	switch {
	case p.invalid != "":
		bad.Reason, bad.Message = v1beta1.ReasonInvalidSpec, p.invalid
	case len(p.with(conflict)) > 0:
		bad.Reason, bad.Message = v1beta1.ReasonChildConflict, namesOf(p.with(conflict))+inTheWay
	case len(res.Failed) > 0:
		// The message of a denial names the policy, webhook or quota, which a user can change.
		bad.Reason, bad.Message = failure.Of(res.Failed[0]).Reason, res.Failed[0].Error()
	case run.rejected != "":
		bad.Reason, bad.Message = refusalOf(run.rejected), "the viewers' Pods cannot be created: "+run.rejected
	case run.exceeded != "":
		bad.Reason, bad.Message = v1beta1.ReasonRolloutStalled,
			"the viewers do not become ready (check their Pods with kubectl describe and kubectl logs): "+run.exceeded
	}
	bad.Message = reporting.Bounded(bad.Message)
	return bad
}

// inTheWay follows the names of foreign objects in a message.
const inTheWay = " exists and does not belong to this MarkdownView; create the MarkdownView under another name, or " +
	"delete the object if it is not needed"

// ready returns the Ready condition of a view without a problem.
func ready(v *v1beta1.MarkdownView, p plan, run rollout) metav1.Condition {
	const kind = v1beta1.ConditionReady
	switch waits := p.with(wait); {
	case len(waits) > 0:
		return condition(kind, false, v1beta1.ReasonProgressing, "waiting for the deletion of "+namesOf(waits))
	case run.complete(desiredReplicas(v)):
		return condition(kind, true, v1beta1.ReasonReconciled, serving(v, run))
	case !run.observed:
		return condition(kind, false, v1beta1.ReasonProgressing, "the viewers are being updated")
	case run.finished && run.available == 0:
		return condition(kind, false, v1beta1.ReasonNoReplicasAvailable, serving(v, run))
	case run.paused:
		return condition(kind, false, v1beta1.ReasonProgressing, serving(v, run)+
			"; the rollout is paused; to resume it, run: kubectl rollout resume deployment "+viewerPrefix+v.Name)
	default:
		return condition(kind, false, v1beta1.ReasonProgressing,
			fmt.Sprintf("%s; %d of %d have the current content and image", serving(v, run), run.updated, desiredReplicas(v)))
	}
}

// transitions returns the events for the change of the status of a view. An equal status has none.
func transitions(before, v *v1beta1.MarkdownView, p plan) []reporting.PendingEvent {
	var list []reporting.PendingEvent
	find, was, is := reporting.FindCondition, before.Status, v.Status
	if was.ContentHash != "" && is.ContentHash != was.ContentHash {
		list = append(list, reporting.Normal(v1beta1.EventContentUpdated, "Update",
			"the content has changed, and the viewers are being updated"))
	}
	old, now := find(was.Conditions, v1beta1.ConditionDegraded), find(is.Conditions, v1beta1.ConditionDegraded)
	if now.Status == metav1.ConditionTrue && (now.Reason != old.Reason || now.Message != old.Message) {
		for _, s := range p.with(conflict) {
			list = append(list, reporting.Warning(v1beta1.EventChildConflict, "Create", "%s%s",
				namesOf([]step{s}), inTheWay).About(referTo(v, s)))
		}
		list = append(list, reporting.Warning(v1beta1.EventDegraded, now.Reason, "%s", now.Message))
	}
	old, now = find(was.Conditions, v1beta1.ConditionAvailable), find(is.Conditions, v1beta1.ConditionAvailable)
	if now.Status == metav1.ConditionTrue && old.Status != metav1.ConditionTrue {
		list = append(list, reporting.Normal(v1beta1.EventAvailable, "Serve", "%s", now.Message))
	}
	return list
}

// corrections returns the events about what other clients changed in children that had been correct. The action of an
// event has the field: the recorder counts events of one action as one, with the first message.
func corrections(o *observation, p plan, res *result) []reporting.PendingEvent {
	before := o.view.Status
	degraded := reporting.FindCondition(before.Conditions, v1beta1.ConditionDegraded)
	settled := before.ObservedGeneration == o.view.Generation && before.ContentHash == o.want.hash &&
		before.ViewerImage == o.want.image && before.URL != "" && degraded.Status == metav1.ConditionFalse
	var list []reporting.PendingEvent
	for _, s := range p.steps {
		if !settled || !res.correct[s.kind] || !res.wrote[s.kind] {
			continue
		}
		message := "was missing and was recreated"
		if len(s.differences) > 0 {
			message = "was changed by another client; the operator restored " + strings.Join(s.differences, ", ") +
				", which the operator manages"
		}
		action := fmt.Sprintf("Correct %.100s", append(s.differences, "deletion")[0])
		list = append(list, reporting.Normal(v1beta1.EventDriftCorrected, action, "%s",
			reporting.Bounded(namesOf([]step{s})+" "+message)).About(referTo(o.view, s)))
	}
	return list
}

// referTo returns a reference to a child.
func referTo(v *v1beta1.MarkdownView, s step) *corev1.ObjectReference {
	version := corev1.SchemeGroupVersion
	if s.kind == deployment {
		version = appsv1.SchemeGroupVersion
	}
	return &corev1.ObjectReference{APIVersion: version.String(), Kind: string(s.kind), Namespace: v.Namespace,
		Name: s.name}
}

func condition(kind string, holds bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// desiredReplicas returns the desired number of viewers; see validateReplicas.
func desiredReplicas(v *v1beta1.MarkdownView) int32 {
	return max(v.Spec.Replicas, v1beta1.MinViewerReplicas)
}

func serving(v *v1beta1.MarkdownView, run rollout) string {
	return fmt.Sprintf("%d of %d viewers serve the page", run.available, desiredReplicas(v))
}

// namesOf returns the children as text for a message.
func namesOf(steps []step) string {
	var names []string
	for _, s := range steps {
		names = append(names, strings.ToLower(string(s.kind))+" "+s.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

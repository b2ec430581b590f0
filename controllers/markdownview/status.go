package markdownview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reporting"
)

// rollout is how far the viewers are.
type rollout struct {
	// gone: there is no Deployment of ours, or it was made in this very reconcile.
	gone bool
	// seen: the Deployment controller has seen what the Deployment asks for now;
	// only then do the figures say anything about it.
	seen                         bool
	replicas, updated, available int32
	// finished: all that was asked for was available at some time since the last change.
	finished bool
	// exceeded is what the Deployment says when it has given up; "" if it has not.
	exceeded string
}

func rolloutOf(o *observation, res *result) rollout {
	d := o.deployment
	if d == nil || belongs(o.view, d) != ours {
		return rollout{gone: true}
	}
	if res.outcomes[deployment] == changed || d.Status.ObservedGeneration < d.Generation {
		return rollout{}
	}
	out := rollout{seen: true, replicas: d.Status.Replicas, updated: d.Status.UpdatedReplicas, available: d.Status.AvailableReplicas}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
			out.exceeded = c.Message
		}
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable" {
			out.finished = true
		}
	}
	return out
}

// complete: all viewers show the newest content, and no others are left.
func (r rollout) complete(want int32) bool {
	return r.seen && r.replicas == want && r.updated == want && r.available == want
}

// summarize is the status after a reconcile. It is pure: from what was observed and
// decided, and how it went.
func summarize(o *observation, p plan, res *result, now time.Time) v1beta1.MarkdownViewStatus {
	v, status := o.view, *o.before.DeepCopy()
	status.ObservedGeneration = v.Generation
	run := rolloutOf(o, res)
	switch {
	case run.gone:
		status.Replicas, status.AvailableReplicas = 0, 0
	case run.seen:
		status.Replicas, status.AvailableReplicas = run.replicas, run.available
	}
	if p.invalid == "" {
		status.Selector, status.URL = selectorText(v), ""
		if in(res.outcomes[service], inPlace, created, changed) {
			status.URL = urlOf(v)
		}
		if in(res.outcomes[configMap], inPlace, created, changed) {
			status.ContentHash = o.want.Content
		}
	}
	set := func(c metav1.Condition) { reporting.SetCondition(&status.Conditions, v.Generation, now, c) }
	if available, known := availability(v, res, run); known || reporting.FindCondition(status.Conditions, v1beta1.ConditionAvailable).Type == "" {
		set(available)
	}
	bad, stalled := trouble(p, res, run)
	if bad.Reason == "" {
		set(condition(v1beta1.ConditionDegraded, false, v1beta1.ReasonAsExpected, "no problem was found"))
		set(readiness(v, p, res, run))
	} else {
		set(condition(v1beta1.ConditionDegraded, true, bad.Reason, bad.Message))
		set(condition(v1beta1.ConditionReady, false, bad.Reason, bad.Message))
	}
	if stalled {
		set(condition(v1beta1.ConditionStalled, true, bad.Reason, bad.Message))
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionStalled)
	}
	return status
}

// availability is the Available condition, and whether it is known: while the
// Deployment controller has not looked at a change, the viewers that were there
// before go on serving.
func availability(v *v1beta1.MarkdownView, res *result, run rollout) (metav1.Condition, bool) {
	const kind = v1beta1.ConditionAvailable
	switch {
	case run.gone && res.outcomes[deployment] == created:
		return condition(kind, false, v1beta1.ReasonProgressing, "the viewers are starting"), true
	case run.gone:
		return condition(kind, false, v1beta1.ReasonNoReplicasAvailable, "there is no Deployment of viewers"), true
	case !run.seen:
		return condition(kind, false, v1beta1.ReasonProgressing, "the viewers are starting"), false
	case run.available > 0:
		return condition(kind, true, v1beta1.ReasonReplicasAvailable, serving(v, run)), true
	case run.exceeded != "" || run.finished:
		return condition(kind, false, v1beta1.ReasonNoReplicasAvailable, serving(v, run)), true
	default:
		return condition(kind, false, v1beta1.ReasonProgressing, serving(v, run)), true
	}
}

// trouble is what time alone does not cure, and whether only a person can help.
// Its reason is "" where there is none.
func trouble(p plan, res *result, run rollout) (bad metav1.Condition, stalled bool) {
	switch {
	case p.invalid != "":
		bad.Reason, bad.Message = v1beta1.ReasonInvalidSpec, p.invalid
		stalled = true
	case len(res.foreign) > 0:
		bad.Reason = v1beta1.ReasonChildConflict
		bad.Message = namesOf(res.foreign) + " exists and does not belong to this MarkdownView; delete it, and the operator creates its own"
		stalled = true
	case len(res.errs) > 0:
		bad.Reason, bad.Message = v1beta1.ReasonReconcileFailed, res.errs[0].Error()
		// The message of a denial names the policy, webhook or quota, which others can change.
		if by := denial.Of(res.errs[0]); by.Kind != denial.None {
			bad.Reason, stalled = by.Reason(), by.Kind == denial.RBAC
		}
	case run.exceeded != "":
		bad.Reason, bad.Message = v1beta1.ReasonRolloutStalled, "the viewers do not become ready; describe their Pods and read their logs: "+run.exceeded
		stalled = true
	}
	bad.Message = reporting.Bounded(bad.Message)
	return bad, stalled
}

// readiness is the Ready condition where there is no trouble.
func readiness(v *v1beta1.MarkdownView, p plan, res *result, run rollout) metav1.Condition {
	const kind = v1beta1.ConditionReady
	var awaits []step
	for _, s := range p.steps {
		if res.outcomes[s.kind] == awaited {
			awaits = append(awaits, s)
		}
	}
	switch {
	case len(awaits) > 0:
		return condition(kind, false, v1beta1.ReasonProgressing, "waiting for the deletion of "+namesOf(awaits))
	case run.complete(wanted(v)):
		return condition(kind, true, v1beta1.ReasonReconciled, serving(v, run))
	case !run.seen:
		return condition(kind, false, v1beta1.ReasonProgressing, "the viewers are being updated")
	case run.finished && run.available == 0:
		return condition(kind, false, v1beta1.ReasonNoReplicasAvailable, serving(v, run))
	default:
		return condition(kind, false, v1beta1.ReasonProgressing, fmt.Sprintf("%s; %d of %d are up to date", serving(v, run), run.updated, wanted(v)))
	}
}

// transitions are the events that the change from one status to the next is
// worth. The same status again is worth none.
func transitions(o *observation, after v1beta1.MarkdownViewStatus, res *result) []reporting.PendingEvent {
	var list []reporting.PendingEvent
	before := o.before
	if before.ContentHash != "" && after.ContentHash != before.ContentHash {
		list = append(list, reporting.Normal(v1beta1.EventContentUpdated, "Update", "the content has changed, and the viewers are being updated"))
	}
	old, now := reporting.FindCondition(before.Conditions, v1beta1.ConditionDegraded), reporting.FindCondition(after.Conditions, v1beta1.ConditionDegraded)
	if now.Status == metav1.ConditionTrue && (now.Reason != old.Reason || now.Message != old.Message) {
		for _, s := range res.foreign {
			list = append(list, reporting.Warning(v1beta1.EventChildConflict, "Create",
				"%s exists and does not belong to this MarkdownView; delete it, and the operator creates its own", namesOf([]step{s})).About(referTo(o, s)))
		}
		list = append(list, reporting.Warning(v1beta1.EventDegraded, now.Reason, "%s", now.Message))
	}
	old, now = reporting.FindCondition(before.Conditions, v1beta1.ConditionAvailable), reporting.FindCondition(after.Conditions, v1beta1.ConditionAvailable)
	if now.Status == metav1.ConditionTrue && old.Status != metav1.ConditionTrue {
		list = append(list, reporting.Normal(v1beta1.EventAvailable, "Serve", "%s", now.Message))
	}
	return list
}

// corrections are the events about children that had been right for this spec
// and content, and were not any more.
func corrections(o *observation, p plan, res *result) []reporting.PendingEvent {
	degraded := reporting.FindCondition(o.before.Conditions, v1beta1.ConditionDegraded)
	settled := o.before.ObservedGeneration == o.view.Generation && o.before.ContentHash == o.want.Content &&
		degraded.Status == metav1.ConditionFalse
	var list []reporting.PendingEvent
	for _, s := range p.steps {
		if settled && in(res.outcomes[s.kind], created, changed) {
			what := "was different from the spec and was corrected"
			if s.verb == create {
				what = "was missing and was created again"
			}
			list = append(list, reporting.Normal(v1beta1.EventDriftCorrected, "Correct", "%s %s", namesOf([]step{s}), what).About(referTo(o, s)))
		}
	}
	return list
}

// referTo names a child.
func referTo(o *observation, s step) *corev1.ObjectReference {
	version := corev1.SchemeGroupVersion
	if s.kind == deployment {
		version = appsv1.SchemeGroupVersion
	}
	return &corev1.ObjectReference{APIVersion: version.String(), Kind: string(s.kind), Namespace: o.view.Namespace, Name: s.name}
}

func condition(kind string, holds bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// wanted is how many viewers there are to be; see validateReplicas.
func wanted(v *v1beta1.MarkdownView) int32 {
	return max(v.Spec.Replicas, v1beta1.MinViewerReplicas)
}

func serving(v *v1beta1.MarkdownView, run rollout) string {
	return fmt.Sprintf("%d of %d viewers serve the page", run.available, wanted(v))
}

// namesOf puts children into a sentence.
func namesOf(steps []step) string {
	var names []string
	for _, s := range steps {
		names = append(names, strings.ToLower(string(s.kind))+" "+s.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

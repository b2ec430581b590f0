package markdownview

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// rolloutState sets the state of the rollout of 2 viewers.
func rolloutState(updated, available int32, progressing string) func(*observation) {
	return func(o *observation) {
		o.deployment.Generation = 3
		o.deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: updated,
			AvailableReplicas: available}
		c := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: progressing,
			Message: "said by it"}
		if progressing == "ProgressDeadlineExceeded" {
			c.Status = corev1.ConditionFalse
		}
		o.deployment.Status.Conditions = []appsv1.DeploymentCondition{c}
	}
}

func unobserved(o *observation) { o.deployment.Generation = 4 }

func succeeded() *result {
	return &result{outcomes: map[kind]outcome{configMap: unchanged, deployment: unchanged, service: unchanged}}
}

// forbidden sets the result of a write of the Service that the API server answered with 403.
func forbidden(text string) func(*result, *plan) {
	return func(r *result, _ *plan) {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "viewer-book", errors.New(text))
		r.outcomes[service], r.errs = failed, []error{fmt.Errorf("writing Service viewer-book: %w", err)}
	}
}

// conditionsOf returns the conditions as "Status Reason" by type.
func conditionsOf(s v1beta1.MarkdownViewStatus) map[string]string {
	out := map[string]string{}
	for _, c := range s.Conditions {
		out[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
	}
	return out
}

func TestSummarize(t *testing.T) {
	const done, going, exceeded = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
	is := func(ready, available, degraded string, stalled ...string) map[string]string {
		out := map[string]string{"Ready": ready, "Available": available, "Degraded": degraded}
		if len(stalled) > 0 {
			out["Stalled"] = stalled[0]
		}
		return out
	}
	const fine, up = "False AsExpected", "True ReplicasAvailable"
	for reason, tc := range map[string]struct {
		world   func(*observation)
		outcome func(*result, *plan)
		want    map[string]string
	}{
		"all viewers serve":     {rolloutState(2, 2, done), nil, is("True Reconciled", up, fine)},
		"a rollout in progress": {rolloutState(1, 2, going), nil, is("False Progressing", up, fine)},
		"the first are starting": {rolloutState(2, 0, going), nil,
			is("False Progressing", "False Progressing", fine)},
		"one is missing": {rolloutState(2, 1, done), nil, is("False Progressing", up, fine)},
		"all are missing": {rolloutState(2, 0, done), nil,
			is("False NoReplicasAvailable", "False NoReplicasAvailable", fine)},
		"the deadline is exceeded": {rolloutState(2, 0, exceeded), nil,
			is("False RolloutStalled", "False NoReplicasAvailable", "True RolloutStalled", "True RolloutStalled")},
		"the deadline of an update is exceeded": {rolloutState(1, 1, exceeded), nil,
			is("False RolloutStalled", up, "True RolloutStalled", "True RolloutStalled")},
		"the Deployment is not observed yet": {func(o *observation) { rolloutState(2, 2, done)(o); unobserved(o) }, nil,
			is("False Progressing", "False Progressing", fine)},
		"just created": {func(o *observation) { o.deployment = nil },
			func(r *result, _ *plan) { r.outcomes[deployment] = created }, is("False Progressing", "False Progressing", fine)},
		"just changed": {rolloutState(2, 2, done),
			func(r *result, _ *plan) { r.outcomes[deployment] = changed }, is("False Progressing", "False Progressing", fine)},
		"a child is terminating": {rolloutState(2, 2, done), func(r *result, _ *plan) {
			r.outcomes[service] = waiting
		}, is("False Progressing", up, fine)},
		"a foreign Service": {rolloutState(2, 2, done), func(r *result, p *plan) {
			r.outcomes[service], r.foreign = withheld, p.steps[2:]
		}, is("False ChildConflict", up, "True ChildConflict", "True ChildConflict")},
		"a foreign Deployment": {func(o *observation) { rolloutState(2, 2, done)(o); o.deployment.OwnerReferences = nil },
			func(r *result, p *plan) {
				r.outcomes[deployment], r.foreign = withheld, p.steps[1:2]
			}, is("False ChildConflict", "False NoReplicasAvailable", "True ChildConflict", "True ChildConflict")},
		"a failure": {rolloutState(2, 2, done), func(r *result, _ *plan) {
			r.outcomes[configMap], r.outcomes[deployment], r.errs = failed, withheld, []error{fmt.Errorf("boom")}
		}, is("False ReconcileFailed", up, "True ReconcileFailed")},
		"a missing right": {rolloutState(2, 2, done), forbidden(`User "x" cannot patch resource "services"`),
			is("False RBACForbidden", up, "True RBACForbidden", "True RBACForbidden")},
		"a used up quota": {rolloutState(2, 2, done), forbidden("exceeded quota: team, requested: count/services=1"),
			is("False QuotaExceeded", up, "True QuotaExceeded")},
		"a plugin's denial": {rolloutState(2, 2, done), forbidden("not here"),
			is("False AdmissionDenied", up, "True AdmissionDenied")},
		"a wrong spec": {rolloutState(2, 2, done), func(r *result, p *plan) {
			r.outcomes, p.steps, p.invalid = nil, nil, "x"
		}, is("False InvalidSpec", up, "True InvalidSpec", "True InvalidSpec")},
	} {
		t.Run(reason, func(t *testing.T) {
			o := appliedObservation(t, view())
			tc.world(o)
			p, res := plan{steps: []step{{kind: configMap, name: "m"}, {kind: deployment, name: "d"},
				{kind: service, name: "s"}}}, succeeded()
			if tc.outcome != nil {
				tc.outcome(res, &p)
			}
			got := summarize(o, p, res, epoch)
			if diff := cmp.Diff(tc.want, conditionsOf(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.ObservedGeneration != 2 {
				t.Errorf("observed generation %d, want 2", got.ObservedGeneration)
			}
			// An equal observation gives an equal status. Otherwise each reconcile would write it.
			o.before = *got.DeepCopy()
			if again := summarize(o, p, res, epoch.Add(time.Hour)); !cmp.Equal(got, again) {
				t.Errorf("an equal observation gives another status:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestSummarize_keeps_unknown_fields(t *testing.T) {
	o := appliedObservation(t, view())
	rolloutState(2, 2, "NewReplicaSetAvailable")(o)
	o.before = summarize(o, plan{}, succeeded(), epoch)
	if o.before.AvailableReplicas != 2 || o.before.Replicas != 2 || o.before.URL == "" || o.before.Selector == "" ||
		o.before.ContentHash != o.want.Content {
		t.Fatalf("got %+v", o.before)
	}
	t.Run("until the Deployment controller has observed it", func(t *testing.T) {
		unobserved(o)
		got := summarize(o, plan{}, succeeded(), epoch)
		if got.AvailableReplicas != 2 || conditionsOf(got)["Available"] != "True ReplicasAvailable" ||
			conditionsOf(got)["Ready"] != "False Progressing" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("of the content, while the ConfigMap is foreign", func(t *testing.T) {
		o := appliedObservation(t, view(showing(files{"SUMMARY.md": "other"})))
		o.before.ContentHash, o.before.URL = "old", "old"
		res := succeeded()
		res.outcomes[configMap], res.outcomes[service] = withheld, withheld
		if got := summarize(o, plan{}, res, epoch); got.ContentHash != "old" || got.URL != "" {
			t.Errorf("hash %q, url %q, want the old hash and no url", got.ContentHash, got.URL)
		}
	})
}

func reasons(list []reporting.PendingEvent) []string {
	var out []string
	for _, n := range list {
		out = append(out, n.Type+" "+n.Reason)
	}
	return out
}

func TestTransitions(t *testing.T) {
	status := func(hash string, degraded, available metav1.Condition) v1beta1.MarkdownViewStatus {
		s := v1beta1.MarkdownViewStatus{ContentHash: hash}
		for _, c := range []metav1.Condition{degraded, available} {
			if c.Type != "" {
				reporting.SetCondition(&s.Conditions, 1, epoch, c)
			}
		}
		return s
	}
	none := metav1.Condition{}
	up := condition(v1beta1.ConditionAvailable, true, v1beta1.ReasonReplicasAvailable, "m")
	down := condition(v1beta1.ConditionAvailable, false, v1beta1.ReasonProgressing, "m")
	fine := condition(v1beta1.ConditionDegraded, false, v1beta1.ReasonAsExpected, "m")
	bad := func(message string) metav1.Condition {
		return condition(v1beta1.ConditionDegraded, true, v1beta1.ReasonChildConflict, message)
	}
	foreign := []step{{kind: service, name: "s"}}
	for reason, tc := range map[string]struct {
		before, after v1beta1.MarkdownViewStatus
		foreign       []step
		want          []string
	}{
		"created":               {status("", none, none), status("a", fine, down), nil, nil},
		"served":                {status("a", fine, down), status("a", fine, up), nil, []string{"Normal Available"}},
		"served from the start": {status("", none, none), status("a", fine, up), nil, []string{"Normal Available"}},
		"served still":          {status("a", fine, up), status("a", fine, up), nil, nil},
		"not served any more":   {status("a", fine, up), status("a", fine, down), nil, nil},
		"other content":         {status("a", fine, up), status("b", fine, up), nil, []string{"Normal ContentUpdated"}},
		"a conflict": {status("a", fine, up), status("a", bad("x"), up), foreign,
			[]string{"Warning ChildConflict", "Warning Degraded"}},
		"the same conflict": {status("a", bad("x"), up), status("a", bad("x"), up), foreign, nil},
		"another conflict": {status("a", bad("x"), up), status("a", bad("y"), up), foreign,
			[]string{"Warning ChildConflict", "Warning Degraded"}},
		"the end of a conflict":   {status("a", bad("x"), up), status("a", fine, up), nil, nil},
		"degraded, by no foreign": {status("a", fine, up), status("a", bad("x"), up), nil, []string{"Warning Degraded"}},
	} {
		got := reasons(transitions(&observation{view: view(), before: tc.before}, tc.after, &result{foreign: tc.foreign}))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", reason, diff)
		}
	}
}

func TestCorrectionsNeedCorrectStateBefore(t *testing.T) {
	p := plan{steps: []step{{kind: configMap, name: "m", action: update}, {kind: deployment, name: "d", action: create},
		{kind: service, name: "s", action: keep}}}
	res := &result{outcomes: map[kind]outcome{configMap: changed, deployment: created, service: unchanged}}
	settled := func() *observation {
		o := &observation{view: view(), want: desired{Content: "h", Image: "v:1"}}
		o.before = v1beta1.MarkdownViewStatus{ObservedGeneration: 2, ContentHash: "h", ViewerImage: "v:1"}
		reporting.SetCondition(&o.before.Conditions, 2, epoch,
			condition(v1beta1.ConditionDegraded, false, v1beta1.ReasonAsExpected, "m"))
		return o
	}
	for reason, tc := range map[string]struct {
		change func(*observation)
		want   []string
	}{
		"all was correct": {func(*observation) {},
			[]string{"configmap m was different from the spec and was corrected",
				"deployment d was missing and was created again"}},
		"the spec has changed":          {func(o *observation) { o.view.Generation = 3 }, nil},
		"the hash has changed":          {func(o *observation) { o.want.Content = "i" }, nil},
		"the default image has changed": {func(o *observation) { o.want.Image = "v:2" }, nil},
		"it was degraded":               {func(o *observation) { o.before.Conditions[0].Status = metav1.ConditionTrue }, nil},
		"it was never reconciled":       {func(o *observation) { o.before = v1beta1.MarkdownViewStatus{} }, nil},
	} {
		o := settled()
		tc.change(o)
		var got []string
		for _, n := range corrections(o, p, res) {
			got = append(got, n.Message)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: corrections (-want +got):\n%s", reason, diff)
		}
	}
}

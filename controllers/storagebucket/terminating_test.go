package storagebucket

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

func TestSettle(t *testing.T) {
	const grace = 10 * time.Minute
	deadline := epoch.Add(grace)
	b := bucket("b")
	dead := ending{waiting: &s3.Verdict{Reason: v1beta1.ReasonEndpointUnreachable, Message: "no connection"}}
	missing := ending{waiting: &s3.Verdict{Reason: v1beta1.ReasonCredentialsNotFound, Message: "no Secret"}, lost: true}
	removed := ending{removed: []reporting.PendingEvent{reporting.Normal(v1beta1.EventBucketDeleted, "Delete", "removed")}}
	parked := ending{parked: true}
	going := terminating{namespace: &corev1.Namespace{}, deadline: deadline, grace: grace}
	for name, tc := range map[string]struct {
		namespace terminating
		end       ending
		now       time.Time
		kept      string // the reason; empty if nothing changes
	}{
		"a dead endpoint in a namespace that is not terminating": {terminating{}, dead, deadline.Add(time.Hour), ""},
		"a lost Secret in a namespace that is not terminating":   {terminating{}, missing, deadline.Add(time.Hour), ""},
		"no slot in a namespace that is not terminating":         {terminating{}, parked, deadline.Add(time.Hour), ""},
		"a dead endpoint right before the deadline":              {going, dead, deadline.Add(-time.Nanosecond), ""},
		"a dead endpoint at the deadline":                        {going, dead, deadline, v1beta1.ReasonEndpointUnreachable},
		"a lost Secret at once":                                  {going, missing, epoch, v1beta1.ReasonCredentialsNotFound},
		"a removal at the deadline":                              {going, removed, deadline, ""},
		"no bucket at the deadline":                              {going, ending{}, deadline, ""},
		"no slot right before twice the grace":                   {going, parked, deadline.Add(grace - time.Nanosecond), ""},
		"no slot after twice the grace": {going, parked, deadline.Add(grace),
			v1beta1.ReasonEndpointUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.namespace.settle(tc.end, b, tc.now)
			if got.kept != tc.kept {
				t.Fatalf("kept for %q, want %q", got.kept, tc.kept)
			}
			if tc.kept == "" {
				if got.parked != tc.end.parked || got.waiting != tc.end.waiting || len(got.events) != len(tc.end.events) {
					t.Errorf("%+v, want it unchanged: %+v", got, tc.end)
				}
				return
			}
			if got.waiting != nil || got.parked || len(got.events) != 1 || got.events[0].Type != corev1.EventTypeWarning ||
				got.events[0].Reason != v1beta1.EventBucketRetained {
				t.Errorf("%+v, want the StorageBucket released with one Warning", got)
			}
		})
	}
}

// The grace begins with the deletion of the namespace, or when this process first observed the
// StorageBucket. Events are recorded in a namespace that accepts them.
func TestTerminatingNamespace(t *testing.T) {
	w := newFixture(t, nil)
	clock := w.Clock.(*testingclock.FakePassiveClock)
	recorder := &recording{}
	w.RemovalGrace = 10 * time.Minute
	key := client.ObjectKey{Namespace: "team", Name: "b"}
	b := &v1beta1.StorageBucket{}
	if err := w.stored.Get(t.Context(), key, b); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Finalizers: []string{"kubernetes"}}}
	if err := w.stored.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	ns, err := w.terminating(t.Context(), b)
	if err != nil || ns.namespace != nil || ns.note() != "" {
		t.Fatalf("%+v (%v), want a namespace that stays", ns, err)
	}
	ns.emit(recorder, b, []reporting.PendingEvent{reporting.Normal("R", "A", "text")})
	want := "event Normal R (A) on *v1beta1.StorageBucket team/b, related to nothing: text"
	if !slices.Equal(recorder.Lines, []string{want}) {
		t.Errorf("%q, want %q", recorder.Lines, want)
	}

	if err := w.stored.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if err := w.stored.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil {
		t.Fatal(err)
	}
	// This process observed the StorageBucket at epoch, and the namespace is deleted now.
	if ns, err = w.terminating(t.Context(), b); err != nil ||
		!ns.deadline.Equal(namespace.DeletionTimestamp.Add(w.RemovalGrace)) {
		t.Errorf("deadline %s (%v), want 10m after %s", ns.deadline, err, namespace.DeletionTimestamp)
	}
	ns.emit(recorder, b, []reporting.PendingEvent{reporting.Normal("R", "A", "text")})
	want = "event Normal R (A) on *v1.Namespace /team, related to *v1beta1.StorageBucket team/b: " +
		"StorageBucket team/b: text"
	if got := recorder.Lines[1:]; !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
	// A process that observes it later allows the whole grace.
	w.states = probeStates{}
	late := namespace.DeletionTimestamp.Add(time.Hour)
	clock.SetTime(late)
	for range 2 {
		if ns, err = w.terminating(t.Context(), b); err != nil || !ns.deadline.Equal(late.Add(w.RemovalGrace)) {
			t.Errorf("deadline %s (%v), want 10m after %s", ns.deadline, err, late)
		}
		clock.SetTime(late.Add(time.Minute))
	}
	// A namespace that is gone before its contents ends like one that terminates.
	namespace.Finalizers = nil
	if err := w.stored.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	deleted := metav1.NewTime(late.Add(time.Hour))
	b.DeletionTimestamp = &deleted
	if ns, err = w.terminating(t.Context(), b); err != nil || !ns.deadline.Equal(deleted.Add(w.RemovalGrace)) {
		t.Errorf("deadline %s (%v), want 10m after %s", ns.deadline, err, deleted)
	}
}

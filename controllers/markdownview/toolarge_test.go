package markdownview

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// The statuses that etcd has room for.
var (
	every   = func(v1beta1.MarkdownViewStatus) bool { return true }
	small   = func(s v1beta1.MarkdownViewStatus) bool { return s.URL == "" && s.ContentHash == "" }
	nothing = func(v1beta1.MarkdownViewStatus) bool { return false }
)

// stores makes etcd reject all other statuses.
func (w *fixture) stores(fits func(v1beta1.MarkdownViewStatus) bool) {
	w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if !fits(o.(*v1beta1.MarkdownView).Status) {
				w.writes = append(w.writes, "rejected")
				return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
					Message: "etcdserver: request is too large"}}
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// tooLargeEvents returns the events about the size since the last call.
func (w *fixture) tooLargeEvents() []string {
	var all []string
	for {
		select {
		case e := <-w.Recorder.(*events.FakeRecorder).Events:
			if strings.Contains(e, v1beta1.EventTooLarge) {
				all = append(all, e)
			}
		default:
			return all
		}
	}
}

// A view whose status does not fit gets a smaller one, and once an event. It gets the whole status
// when there is room.
func TestStatusTooLarge(t *testing.T) {
	const event = "Warning TooLarge " + tooLargeMessage
	w := newFixture(t, view())
	for i, step := range []struct {
		fits   func(v1beta1.MarkdownViewStatus) bool
		writes []string
		ready  string
		events []string
	}{
		{small, []string{"rejected", "status"}, "False TooLarge", []string{event}},
		{small, []string{"rejected"}, "False TooLarge", nil},
		{every, []string{"status"}, "False Progressing", nil},
	} {
		w.stores(step.fits)
		w.writes = nil
		if result, err := w.Reconcile(t.Context(), request); err != nil || result != (ctrl.Result{}) {
			t.Fatalf("reconcile %d: %v, %v, want success", i, result, err)
		}
		status := w.status(t)
		got := conditionsOf(status)
		if got["Ready"] != step.ready || (got["Stalled"] == "True TooLarge") != (step.ready == "False TooLarge") ||
			got["Available"] == "" || status.ObservedGeneration != 2 {
			t.Errorf("reconcile %d: %v of generation %d, want Ready %s", i, got, status.ObservedGeneration, step.ready)
		}
		if diff := cmp.Diff(step.events, w.tooLargeEvents()); diff != "" {
			t.Errorf("reconcile %d: events (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(step.writes, slices.DeleteFunc(w.writes, isApply)); diff != "" {
			t.Errorf("reconcile %d: writes of the status (-want +got):\n%s", i, diff)
		}
	}
}

func isApply(write string) bool { return write != "status" && write != "rejected" }

// Where no status fits, the event is all that a user gets, and the queue retries.
func TestNoStatusFits(t *testing.T) {
	w := newFixture(t, view())
	w.stores(nothing)
	for range 2 {
		if _, err := w.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "writing status") {
			t.Errorf("got %v, want the error of the write", err)
		}
		if diff := cmp.Diff([]string{"Warning TooLarge " + tooLargeMessage}, w.tooLargeEvents()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	if got := w.status(t); len(got.Conditions) > 0 {
		t.Errorf("status %v, want none", got)
	}
}

// Another error of the smaller status is no statement about its size.
func TestStatusTooLargeThenAnotherError(t *testing.T) {
	w := newFixture(t, view())
	w.stores(small)
	w.answers["status"] = apierrors.NewInternalError(errors.New("etcd"))
	if _, err := w.Reconcile(t.Context(), request); err == nil {
		t.Error("got success, want the error")
	}
	if got := w.tooLargeEvents(); got != nil {
		t.Errorf("events %q, want none before the status is known", got)
	}
}

// The time of a transition does not change while the condition does not, and conditions of other
// clients, which may be what fills the object, are dropped.
func TestTooLargeStatusIsStable(t *testing.T) {
	v := view()
	before := v1beta1.MarkdownViewStatus{ContentHash: strings.Repeat("h", 64)}
	for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionDegraded, "Foreign"} {
		reporting.SetCondition(&before.Conditions, 1, epoch, metav1.Condition{Type: kind, Status: metav1.ConditionFalse,
			Reason: "Before", Message: strings.Repeat("m", 900)})
	}
	v.Status = before
	small := tooLargeStatus(v, before, epoch.Add(1e9))
	got := reporting.FindCondition(small.Conditions, v1beta1.ConditionReady)
	if !got.LastTransitionTime.Time.Equal(epoch) {
		t.Errorf("Ready changed at %s, want the time at which it became False", got.LastTransitionTime)
	}
	if got := conditionsOf(small); len(got) != 2 || small.ContentHash != "" {
		t.Errorf("%v with the hash %q, want Ready and Stalled alone", got, small.ContentHash)
	}
	if again := tooLargeStatus(v, small, epoch.Add(2e9)); !cmp.Equal(small, again) {
		t.Errorf("the second status differs:\n%s", cmp.Diff(small, again))
	}
}

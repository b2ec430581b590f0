// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/internal/reporting"
)

// Before children are written, a live read must return the same view as the cache. A label or a
// status does not count as a difference.
func TestChildrenAreWrittenOnlyForUnchangedView(t *testing.T) {
	for live, tc := range map[string]struct {
		is     func(*v1beta1.MarkdownView) // nil if there is none
		wanted bool
	}{
		"unchanged":                {func(*v1beta1.MarkdownView) {}, true},
		"with a label":             {func(v *v1beta1.MarkdownView) { v.Labels = map[string]string{"a": "b"} }, true},
		"with a status":            {func(v *v1beta1.MarkdownView) { v.Status.URL = "http://x" }, true},
		"of the next generation":   {func(v *v1beta1.MarkdownView) { v.Generation++ }, false},
		"of the generation before": {func(v *v1beta1.MarkdownView) { v.Generation-- }, false},
		"created again":            {func(v *v1beta1.MarkdownView) { v.UID = "second" }, false},
		"terminating": {func(v *v1beta1.MarkdownView) {
			v.DeletionTimestamp, v.Finalizers = new(metav1.Now()), []string{metav1.FinalizerDeleteDependents}
		}, false},
		"deleted": {nil, false},
	} {
		t.Run(live, func(t *testing.T) {
			r := newRecording(t, view())
			if tc.is == nil {
				r.Live = reconcilertest.NewClientBuilder().Build()
			} else {
				r.Live = reconcilertest.NewClientBuilder().WithObjects(view(tc.is)).Build()
			}
			result, err := r.Reconcile(t.Context(), request)
			if err != nil || r.has("apply") != tc.wanted ||
				(result.RequeueAfter == reconciler.RetryAfterConflict) == tc.wanted {
				t.Errorf("got %v, %v and the requests %q, want children: %t", result, err, r.Lines, tc.wanted)
			}
		})
	}
}

// A view that is being deleted gets no child and no status. While its ConfigMap is being deleted, no
// Deployment is written, or new Pods would serve the old content under the new hash.
func TestNothingIsWrittenBesideADeletion(t *testing.T) {
	ends := func(o client.Object) {
		o.SetDeletionTimestamp(new(metav1.Now()))
		o.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	}
	for name, tc := range map[string]struct {
		of   func() []client.Object
		want map[string]bool // requests by their beginning
	}{
		"View": {func() []client.Object { return []client.Object{view(func(v *v1beta1.MarkdownView) { ends(v) })} },
			map[string]bool{"  status": false, "  apply": false, "  patch": false}},
		"ConfigMap": {func() []client.Object {
			content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "markdowns-book",
				Labels: labelsFor(view()), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(view(), viewKind)}}}
			ends(content)
			return []client.Object{view(), content}
		}, map[string]bool{"  apply ConfigMap": false, "  apply Deployment": false, "  apply Service": true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, tc.of()...)
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			for request, want := range tc.want {
				if got := strings.Contains(strings.Join(r.Lines, "\n"), request); got != want {
					t.Errorf("%q is sent: %t, want %t, in %q", request, got, want, r.Lines)
				}
			}
		})
	}
}

// A reconcile that has used up its time reports that, whichever request hangs. One that is canceled, because the
// operator stops, reports nothing.
func TestHangingRequests(t *testing.T) {
	for _, hangs := range []string{"get MarkdownView ns/book", "apply as leasehold ConfigMap ",
		"apply as leasehold Deployment ", "apply as leasehold Service "} {
		for _, stops := range []bool{false, true} {
			r := newRecording(t, view())
			_ = t.Context().Done() // a channel that was made in the bubble could not end
			want := context.DeadlineExceeded
			if stops {
				want = context.Canceled
			}
			synctest.Test(t, func(t *testing.T) {
				if err := r.Ended(t.Context(), r.Reconciler, request, hangs, stops); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", hangs, err, want)
				}
			})
			v := &v1beta1.MarkdownView{}
			if err := r.stored.Get(t.Context(), request.NamespacedName, v); err != nil {
				t.Fatal(err)
			}
			got := reporting.FindCondition(v.Status.Conditions, v1beta1.ConditionDegraded)
			if (got.Reason == v1beta1.ReasonReconcileFailed) == stops {
				t.Errorf("%s, the operator stops %t: Degraded %s %s: %s", hangs, stops, got.Status, got.Reason, got.Message)
			}
		}
	}
}

// A child is changed or replaced only at the version that the decision is based on. Since then
// the name may belong to another object, and the owner may have changed.
func TestOnlyWhatWasJudgedIsWritten(t *testing.T) {
	child := func(uid types.UID, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "markdowns-book", UID: uid, ResourceVersion: version}}
	}
	for state, tc := range map[string]struct {
		live     client.Object
		conflict bool
	}{
		"the same":         {child("uid", "5"), false},
		"a newer version":  {child("uid", "6"), true},
		"an older version": {child("uid", "4"), true},
		"another object":   {child("other", "6"), true},
	} {
		for _, how := range []action{update, replace} {
			t.Run(string(how)+" "+state, func(t *testing.T) {
				r := newRecording(t, tc.live)
				s := step{action: how, live: child("uid", "5")}
				want := render(view(), "hash", defaultImage).configMap
				wrote, err := write(t.Context(), r.Client, s, want, &want.ObjectMetaApplyConfiguration)
				if apierrors.IsConflict(err) != tc.conflict || (err != nil) != tc.conflict || wrote == tc.conflict {
					t.Fatalf("wrote %t, %v after %q; want a conflict: %t", wrote, err, r.Lines, tc.conflict)
				}
			})
		}
	}
}

// A foreign webhook may restore its own value after each apply. That is no write, so nothing is
// reported, and the view rests.
func TestApplyWithoutEffectIsNoWrite(t *testing.T) {
	for version, want := range map[string]bool{"5": false, "6": true} {
		c := interceptor.NewClient(reconcilertest.NewClientBuilder().Build(), interceptor.Funcs{
			Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
				o.(*corev1ac.ServiceApplyConfiguration).WithResourceVersion(version)
				return nil
			}})
		s := step{action: update, live: &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5"}}}
		applied := render(view(), "hash", defaultImage).service
		wrote, err := write(t.Context(), c, s, applied, &applied.ObjectMetaApplyConfiguration)
		if wrote != want || err != nil {
			t.Errorf("the version after an apply to version 5 is %s: wrote %t, %v", version, wrote, err)
		}
	}
}

// An object of others in the place of a child does not delay the retries after an error of another child.
func TestErrorBesideAConflictIsRetried(t *testing.T) {
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "viewer-book"}}
	r := newRecording(t, view(func(v *v1beta1.MarkdownView) { v.Status.ObservedGeneration = v.Generation }), theirs)
	r.errs["ConfigMap"] = errors.New("boom")
	if result, err := r.Reconcile(t.Context(), request); !errors.Is(err, r.errs["ConfigMap"]) {
		t.Errorf("got %v, %v after %q, want the error", result, err, r.Lines)
	}
}

// A file that the spec has no more is removed from the ConfigMap, although no wanted file differs. The status may
// still have the hash of the content before that file, if it could not be written meanwhile.
func TestRemovedFileGoes(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "viewer-book", errors.New("changed"))
	for name, fault := range map[string]struct {
		at  string
		err error
	}{
		"later":                         {},
		"after a failed status":         {"status", errors.New("boom")},
		"after a Deployment's Conflict": {"Deployment", conflict},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, view())
			r.run(noChange, reportRollout(2, 2, 2, "NewReplicaSetAvailable"))
			r.errs[fault.at] = fault.err
			r.run(editView(func(v *v1beta1.MarkdownView) {
				v.Spec.Markdowns["secret.md"] = "s"
				v.Generation++
			}))
			delete(r.errs, fault.at)
			r.run(editView(func(v *v1beta1.MarkdownView) {
				delete(v.Spec.Markdowns, "secret.md")
				v.Generation++
			}), reportRollout(2, 2, 2, "NewReplicaSetAvailable"), noChange)
			c := &corev1.ConfigMap{}
			if err := r.stored.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "markdowns-book"}, c); err != nil {
				t.Fatal(err)
			}
			if _, left := c.Data["secret.md"]; left {
				t.Errorf("a removed file is still in the ConfigMap: %v", c.Data)
			}
		})
	}
}

// A request without a response is reported although the reconcile's time is over.
func TestHungRequestIsReported(t *testing.T) {
	r := newRecording(t, view())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r.Live = interceptor.NewClient(r.stored, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			<-ctx.Done()
			return ctx.Err()
		}})
	r.Client = interceptor.NewClient(r.stored, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, of string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.SubResource(of).Patch(ctx, o, p, opts...)
		}})
	if _, err := r.Reconcile(ctx, request); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Reconcile() = %v, want that its time is over", err)
	}
	v := &v1beta1.MarkdownView{}
	if err := r.stored.Get(t.Context(), request.NamespacedName, v); err != nil {
		t.Fatal(err)
	}
	got := reporting.FindCondition(v.Status.Conditions, v1beta1.ConditionReady)
	if got.Reason != v1beta1.ReasonReconcileFailed {
		t.Errorf("Ready is %q, %q; want the reason %s", got.Reason, got.Message, v1beta1.ReasonReconcileFailed)
	}
}

// After a restart of the operator the first reconcile of a view sets its series, although the status is as before.
func TestSeriesAfterARestart(t *testing.T) {
	r := newRecording(t, view())
	r.run(noChange, reportRollout(2, 2, 2, "NewReplicaSetAvailable"))
	r.available.Reset() // as in a new process
	r.run(noChange)
	if got := testutil.ToFloat64(r.available.WithLabelValues("ns", "book")); got != 1 {
		t.Errorf("leasehold_markdownview_available is %g, want 1", got)
	}
}

// The error of a child, which controller-runtime logs, has a bounded text.
func TestErrorOfAChildIsBounded(t *testing.T) {
	r := newRecording(t, view())
	r.errs["ConfigMap"] = errors.New(strings.Repeat("x", 50_000))
	if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, r.errs["ConfigMap"]) || len(err.Error()) > 1000 {
		t.Errorf("Reconcile() = an error of %d bytes, want its cause and at most 1000", len(err.Error()))
	}
}

// The report of an error that prevents a reconcile is bounded: the API server would refuse a longer one.
func TestErrorThatPreventsAReconcileIsBounded(t *testing.T) {
	r := newRecording(t, view())
	r.errs["live get"] = errors.New(strings.Repeat("x", 50_000))
	if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, r.errs["live get"]) {
		t.Fatal("the error is lost")
	}
	v := &v1beta1.MarkdownView{}
	if err := r.stored.Get(t.Context(), request.NamespacedName, v); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionDegraded} {
		if got := reporting.FindCondition(v.Status.Conditions, kind).Message; got == "" || len(got) > 1000 {
			t.Errorf("the message of %s has %d bytes, want at most 1000", kind, len(got))
		}
	}
}

// A relist swallows the event of the deletion of a child that is replaced. No read waits for it.
func TestNoReadWaitsForAReplacedChild(t *testing.T) {
	var sent client.DeleteOptions
	c := interceptor.NewClient(reconcilertest.NewClientBuilder().Build(), interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			sent.ApplyOptions(opts)
			return nil
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return nil
		}})
	s := step{action: replace, live: &corev1.ConfigMap{}}
	want := render(view(), "hash", defaultImage).configMap
	wrote, err := write(t.Context(), c, s, want, &want.ObjectMetaApplyConfiguration)
	if err != nil || !wrote || !sent.DisableReadYourWritesConsistency {
		t.Errorf("wrote %t, %v, with %+v", wrote, err, sent)
	}
}

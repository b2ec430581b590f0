package markdownview

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// A Deployment that is not in the cache yet is read live. Later the cache has an older version of
// it, from before its viewers were available. The status must not change back.
func TestCacheIsNotOlderThanLiveRead(t *testing.T) {
	started := view(func(v *v1beta1.MarkdownView) { v.Status.ObservedGeneration = 1 })
	child := func(version string, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: viewerPrefix + "book", ResourceVersion: version},
			Status:     appsv1.DeploymentStatus{AvailableReplicas: available},
		}
	}
	r := newRecording(t, started)
	r.Live = fakeBuilder(t, started, child("7", 1)).Build()
	for i, step := range []struct {
		cached []client.Object
		want   string
	}{
		{nil, "7"},
		{[]client.Object{child("5", 0)}, "7"},
		{[]client.Object{child("7", 1)}, "7"},
		{[]client.Object{child("8", 0)}, "8"},
	} {
		r.Client = fakeBuilder(t, append(step.cached, started)...).Build()
		o, err := r.observe(t.Context(), started)
		if err != nil {
			t.Fatal(err)
		}
		if o.deployment == nil || o.deployment.ResourceVersion != step.want {
			t.Errorf("reconcile %d saw the deployment %v, want version %s", i+1, o.deployment, step.want)
		}
	}
}

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
				r.Live = fakeBuilder(t).Build()
			} else {
				r.Live = fakeBuilder(t, view(tc.is)).Build()
			}
			result, err := r.Reconcile(t.Context(), request)
			if err != nil || r.has("apply") != tc.wanted ||
				(result.RequeueAfter == reconciler.RetryAfterConflict) == tc.wanted {
				t.Errorf("got %v, %v and the requests %q, want children: %t", result, err, r.Lines, tc.wanted)
			}
			if !r.contents.TryAcquire(maxContents) || r.contents.TryAcquire(1) {
				t.Errorf("want slots for exactly %d contents after the reconcile", maxContents)
			}
		})
	}
}

// A child is pruned only at the version that the decision is based on. Since then the name may
// belong to another object, and the owner or other entries may have changed.
func TestPruneOnlyWhatWasJudged(t *testing.T) {
	child := func(uid types.UID, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"stray.md": ""},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: uid, ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		live     []client.Object
		conflict bool
	}{
		"the same":         {[]client.Object{child("uid", "5")}, false},
		"a newer version":  {[]client.Object{child("uid", "6")}, true},
		"an older version": {[]client.Object{child("uid", "4")}, true},
		"another object":   {[]client.Object{child("other", "5")}, true},
		"none":             {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, tc.live...)
			pruned, err := prune(t.Context(), r.Reconciler, &r.own.configMaps, child("uid", "5"), &corev1.ConfigMap{},
				func(live *corev1.ConfigMap) (*corev1.ConfigMap, error) { return prunedConfigMap(live), nil })
			if apierrors.IsConflict(err) != tc.conflict || (err != nil) != tc.conflict || r.has("patch") == tc.conflict {
				t.Fatalf("%v after %q; want a conflict and no patch: %t", err, r.Lines, tc.conflict)
			}
			if err == nil && (len(pruned.Data) > 0 || pruned.ResourceVersion == "5") {
				t.Errorf("pruned to %v at version %s", pruned.Data, pruned.ResourceVersion)
			}
		})
	}
}

// The period starts with the last reconcile that reported the state of the view. After a failure
// the queue retries. A Conflict or a deletion does not count, because the reported state may be
// outdated.
func TestPeriodicReconcileFollowsLastReconcile(t *testing.T) {
	denied := deniedWrites()
	for name, tc := range map[string]struct {
		errs map[string]error
		want bool
	}{
		"nothing fails":            {nil, true},
		"a write fails":            {map[string]error{"ConfigMap": denied["the API server fails"]}, true},
		"a write gets Conflict":    {map[string]error{"ConfigMap": denied["it has changed"]}, false},
		"the status gets Conflict": {map[string]error{"status": denied["it has changed"]}, false},
		"the view is deleted before the status": {
			map[string]error{"status": apierrors.NewNotFound(schema.GroupResource{}, "book")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, view())
			r.errs = tc.errs
			_, _ = r.Reconcile(t.Context(), request) // the queue retries a failure
			if at, known := r.lastReconciled.Load(request.NamespacedName); known != tc.want || known && at != epoch {
				t.Errorf("the last reconcile was at %v: %t, want %t", at, known, tc.want)
			}
		})
	}
}

// The Reconciler drops the time of the last reconcile and the versions of its writes with a deleted
// view. It keeps those of other views.
func TestStateOfDeletedViewIsDropped(t *testing.T) {
	r := newRecording(t)
	written := func(name, version string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
	}
	own := []struct {
		kind, prefix string
		writes       *reconciler.ReadYourWrites
	}{
		{"MarkdownView", "", &r.own.views.ReadYourWrites},
		{"ConfigMap", contentPrefix, &r.own.configMaps},
		{"Deployment", viewerPrefix, &r.own.deployments},
		{"Service", viewerPrefix, &r.own.services},
	}
	for _, name := range []string{"book", "other"} {
		r.lastReconciled.Store(types.NamespacedName{Namespace: "ns", Name: name}, epoch)
		for _, o := range own {
			o.writes.Observe(written(o.prefix+name, "2"))
		}
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"book": false, "other": true} {
		if _, known := r.lastReconciled.Load(types.NamespacedName{Namespace: "ns", Name: name}); known != want {
			t.Errorf("the time of the last reconcile of %s is kept: %t, want %t", name, known, want)
		}
		for _, o := range own {
			if got := o.writes.Stale(written(o.prefix+name, "1")); got != want {
				t.Errorf("the version of the %s of %s is kept: %t, want %t", o.kind, name, got, want)
			}
		}
	}
}

package markdownview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/semaphore"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

var request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "book"}}

// fixture is a Reconciler on a fake API server. It returns answers for applies by the child's kind,
// and records the writes.
type fixture struct {
	*Reconciler
	client  client.WithWatch
	answers map[string]error
	writes  []string
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	w := &fixture{answers: map[string]error{}}
	w.client = fakeBuilder(t, objects...).WithStatusSubresource(&v1beta1.MarkdownView{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
				opts ...client.ApplyOption) error {
				kind := *o.(interface{ GetKind() *string }).GetKind()
				w.writes = append(w.writes, kind)
				if err := w.answers[kind]; err != nil {
					return err
				}
				return c.Apply(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				w.writes = append(w.writes, sub)
				if err := w.answers[sub]; err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	available, err := newAvailable(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.Reconciler = &Reconciler{
		Client: w.client, Live: w.client, Recorder: events.NewFakeRecorder(100), available: available,
		Options:  Options{DefaultViewerImage: defaultImage, SyncPeriod: time.Minute},
		Clock:    testingclock.NewFakePassiveClock(epoch),
		contents: semaphore.NewWeighted(maxContents),
	}
	return w
}

func (w *fixture) status(t *testing.T) v1beta1.MarkdownViewStatus {
	t.Helper()
	v := &v1beta1.MarkdownView{}
	if err := w.client.Get(t.Context(), request.NamespacedName, v); err != nil {
		t.Fatal(err)
	}
	return v.Status
}

// The recorded writes show which children an error of one child affects.
func TestReconcile_one_child_fails(t *testing.T) {
	refused := apierrors.NewInternalError(errors.New("etcd"))
	leaving := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x",
		errors.New("namespace is being terminated"))
	leaving.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errors.New("changed"))
	const message = "ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'b' denied request: Pod a " +
		"does not hold the Lease"
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", errors.New(message))
	denied.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: message}}
	for reason, tc := range map[string]struct {
		answers map[string]error
		tried   []string
		result  ctrl.Result
		fails   bool
		ready   string
	}{
		"the ConfigMap: no Deployment without it, but the Service": {map[string]error{"ConfigMap": refused,
			"Service": refused},
			[]string{"ConfigMap", "Service", "status"}, ctrl.Result{}, true, v1beta1.ReasonReconcileFailed},
		"the ConfigMap, by a Conflict: reconcile again": {map[string]error{"ConfigMap": conflict, "Service": refused},
			[]string{"ConfigMap", "Service"}, ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}, false, ""},
		"all, by the fence, as another replica leads: no report": {map[string]error{"ConfigMap": denied, "Service": denied},
			[]string{"ConfigMap", "Service"}, ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}, false, ""},
		"the status, by the fence: it is written with the next reconcile": {map[string]error{"ConfigMap": refused,
			"Service": refused, "status": denied},
			[]string{"ConfigMap", "Service", "status"}, ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}, false, ""},
		"all, as the namespace terminates: no report": {map[string]error{"ConfigMap": leaving, "Service": leaving},
			[]string{"ConfigMap", "Service"}, ctrl.Result{}, false, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			w := newFixture(t, view())
			w.answers = tc.answers
			result, err := w.Reconcile(t.Context(), request)
			if result != tc.result || (err != nil) != tc.fails {
				t.Errorf("got %v, %v; want %v, failing %t", result, err, tc.result, tc.fails)
			}
			if diff := cmp.Diff(tc.tried, w.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			ready := ""
			if conditions := w.status(t).Conditions; len(conditions) > 0 {
				ready = conditions[slices.IndexFunc(conditions,
					func(c metav1.Condition) bool { return c.Type == v1beta1.ConditionReady })].Reason
			}
			if ready != tc.ready {
				t.Errorf("the reason of Ready is %q, want %q", ready, tc.ready)
			}
			if told := len(w.Recorder.(*events.FakeRecorder).Events); (told > 0) != (tc.ready != "") {
				t.Errorf("%d events, want some only where a status was written", told)
			}
		})
	}
}

// The one live read of a new view is for its content.
func TestNewViewNeedsOneLiveRead(t *testing.T) {
	w := newFixture(t, view())
	var reads []string
	w.Live = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
			opts ...client.GetOption) error {
			reads = append(reads, fmt.Sprintf("%T", into))
			return c.Get(ctx, key, into, opts...)
		},
	})
	if result, err := w.Reconcile(t.Context(), request); err != nil || result != (ctrl.Result{}) {
		t.Fatalf("got %v, %v, want no requeue: watch events follow", result, err)
	}
	if diff := cmp.Diff([]string{"*v1beta1.MarkdownView"}, reads); diff != "" {
		t.Errorf("live reads (-want +got):\n%s", diff)
	}
	if len(w.writes) != 4 {
		t.Errorf("writes %v, want three children and the status", w.writes)
	}
}

// No watch event reports the deletion of a foreign object. So a blocked view is reconciled again
// before the sync period ends.
func TestBlockedViewIsRequeued(t *testing.T) {
	stranger := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: viewerPrefix + "book"}}
	known := func(v *v1beta1.MarkdownView) { v.Status.ObservedGeneration = 1 }
	for period, want := range map[time.Duration]time.Duration{10 * time.Minute: 30 * time.Second,
		5 * time.Second: 5 * time.Second} {
		w := newFixture(t, view(known), stranger.DeepCopy())
		w.Options.SyncPeriod = period
		if result, err := w.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != want {
			t.Errorf("with a period of %s: got %v, %v, want a requeue after %s", period, result, err, want)
		}
		if got := conditionsOf(w.status(t)); got["Stalled"] != "True ChildConflict" {
			t.Errorf("got %v, want a blocked view", got)
		}
	}
}

// The Deployment is withheld while the ConfigMap is foreign. The message still names a foreign
// Deployment, so the user can remove all foreign children at once.
func TestBlockedViewNamesEveryForeignChild(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	known := func(v *v1beta1.MarkdownView) { v.Status.ObservedGeneration = 1 }
	w := newFixture(t, view(known), &corev1.ConfigMap{ObjectMeta: meta("markdowns-book")},
		&appsv1.Deployment{ObjectMeta: meta("viewer-book")}, &corev1.Service{ObjectMeta: meta("viewer-book")})
	if _, err := w.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	const want = "configmap markdowns-book, deployment viewer-book, service viewer-book exists and does not belong"
	if ready := reporting.FindCondition(w.status(t).Conditions,
		v1beta1.ConditionReady); !strings.Contains(ready.Message, want) {
		t.Errorf("message %q, want %q in it", ready.Message, want)
	}
}

// After a Conflict because of a stale cache, the next reconcile does not decide from the cache.
func TestChildrenAreReadLiveAfterConflict(t *testing.T) {
	content := func(version string) *corev1.ConfigMap {
		v := view()
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: v.Namespace, Name: contentPrefix + v.Name, ResourceVersion: version,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v, v1beta1.GroupVersion.WithKind("MarkdownView"))},
		}}
	}
	w := newFixture(t, view(), content("5"))
	w.Live = fakeBuilder(t, view(), content("7")).Build()
	w.answers["ConfigMap"] = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, content("").Name,
		errors.New("changed"))
	for i, want := range []string{"5", "7"} {
		o, err := w.observe(t.Context(), view())
		if err != nil {
			t.Fatal(err)
		}
		if got := o.configMap.ResourceVersion; got != want {
			t.Errorf("reconcile %d saw the content at version %s, want %s", i+1, got, want)
		}
		if _, err := w.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
}

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
	w := newFixture(t, started)
	w.Live = fakeBuilder(t, started, child("7", 1)).Build()
	for i, cached := range []client.Object{nil, child("5", 0), child("7", 1), child("8", 0)} {
		objects := []client.Object{started}
		if cached != nil {
			objects = append(objects, cached)
		}
		w.Client = fakeBuilder(t, objects...).Build()
		o, err := w.observe(t.Context(), started)
		if err != nil {
			t.Fatal(err)
		}
		want := "7"
		if i == 3 {
			want = "8"
		}
		if o.deployment == nil || o.deployment.ResourceVersion != want {
			t.Errorf("reconcile %d saw the deployment %v, want version %s", i+1, o.deployment, want)
		}
	}
}

func TestDeletedView(t *testing.T) {
	t.Run("is not changed", func(t *testing.T) {
		w := newFixture(t, view(func(v *v1beta1.MarkdownView) {
			v.DeletionTimestamp, v.Finalizers = new(metav1.Now()), []string{metav1.FinalizerDeleteDependents}
		}))
		if result, err := w.Reconcile(t.Context(), request); err != nil || result != (ctrl.Result{}) || len(w.writes) > 0 {
			t.Errorf("got %v, %v and the writes %v, want nothing", result, err, w.writes)
		}
	})
	t.Run("is dropped after its deletion", func(t *testing.T) {
		w := newFixture(t)
		w.available.WithLabelValues("ns", "book").Set(1)
		w.available.WithLabelValues("ns", "other").Set(1)
		w.lastReconciled.Store(request.NamespacedName, epoch)
		if result, err := w.Reconcile(t.Context(), request); err != nil || result != (ctrl.Result{}) {
			t.Errorf("got %v, %v, want nothing", result, err)
		}
		if n := testutil.CollectAndCount(w.available); n != 1 {
			t.Errorf("%d series are left, want that of the other", n)
		}
		if _, known := w.lastReconciled.Load(request.NamespacedName); known {
			t.Error("the time of its last reconcile was not dropped")
		}
	})
	t.Run("that has changed since is not reverted", func(t *testing.T) {
		w := newFixture(t, view())
		if _, err := w.Reconcile(t.Context(), request); err != nil || len(w.writes) == 0 {
			t.Fatalf("%v and the writes %v, want all that it needs", err, w.writes)
		}
		var cm corev1.ConfigMap
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: contentPrefix + "book"},
			&cm); err != nil {
			t.Fatal(err)
		}
		cm.Data = map[string]string{"new.md": "# New\n"} // as another replica has written it since
		if err := w.client.Update(t.Context(), &cm); err != nil {
			t.Fatal(err)
		}
		w.Live, w.writes = newFixture(t, view(func(v *v1beta1.MarkdownView) { v.Generation++ })).client, nil
		if result, err := w.Reconcile(t.Context(), request); err != nil ||
			result.RequeueAfter != reconciler.RetryAfterConflict || len(w.writes) > 0 {
			t.Errorf("got %v, %v and the writes %v, want a requeue and no write", result, err, w.writes)
		}
	})
}

// Before children are written, a live read must return the same view as the cache. A label or a
// status does not count as a difference.
func TestChildrenAreWrittenOnlyForUnchangedView(t *testing.T) {
	for live, tc := range map[string]struct {
		is     func(*v1beta1.MarkdownView)
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
			w := newFixture(t, view())
			if tc.is == nil {
				w.Live = newFixture(t).client
			} else {
				w.Live = newFixture(t, view(tc.is)).client
			}
			result, err := w.Reconcile(t.Context(), request)
			if err != nil || (len(w.writes) > 0) != tc.wanted ||
				(result.RequeueAfter == reconciler.RetryAfterConflict) == tc.wanted {
				t.Errorf("got %v, %v and the writes %v, want children: %t", result, err, w.writes, tc.wanted)
			}
			if !w.contents.TryAcquire(maxContents) {
				t.Error("the slot for the content was not returned")
			}
		})
	}
}

func TestInvalidSpecIsReportedAndWritesNothing(t *testing.T) {
	w := newFixture(t, view(showing(nil)))
	if _, err := w.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"status"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := conditionsOf(w.status(t)); got["Ready"] != "False InvalidSpec" || got["Stalled"] != "True InvalidSpec" {
		t.Errorf("got %v", got)
	}
	if n := testutil.ToFloat64(w.available.WithLabelValues("ns", "book")); n != 0 {
		t.Errorf("the gauge is %g, want 0", n)
	}
	first := <-w.Recorder.(*events.FakeRecorder).Events
	if !strings.Contains(first, "Warning Degraded") {
		t.Errorf("event %q", first)
	}
	if _, err := w.Reconcile(t.Context(), request); err != nil || len(w.writes) != 1 {
		t.Errorf("the second reconcile: %v and the writes %v, want no other", err, w.writes)
	}
}

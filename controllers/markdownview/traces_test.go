package markdownview

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/reconciler"
)

// The period starts with the last reconcile that reported the state of the view. After a failure
// the queue retries. A Conflict or a deletion does not count, because the reported state may be
// outdated.
func TestPeriodicReconcileFollowsLastReconcile(t *testing.T) {
	resource := schema.GroupResource{Resource: "x"}
	for name, tc := range map[string]struct {
		answers map[string]error
		want    bool
	}{
		"nothing fails": {nil, true},
		"a write fails": {map[string]error{"ConfigMap": apierrors.NewInternalError(
			errors.New("etcd"))}, true},
		"a write gets Conflict": {map[string]error{"ConfigMap": apierrors.NewConflict(resource, "x",
			errors.New("changed"))}, false},
		"the status gets Conflict": {map[string]error{"status": apierrors.NewConflict(resource, "x",
			errors.New("changed"))}, false},
		"the view is deleted before the status": {map[string]error{"status": apierrors.NewNotFound(resource, "book")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, view())
			w.answers = tc.answers
			_, _ = w.Reconcile(t.Context(), request) // the queue retries a failure
			if at, known := w.lastReconciled.Load(request.NamespacedName); known != tc.want || known && at != w.Clock.Now() {
				t.Errorf("the last reconcile was at %v: %t, want %t", at, known, tc.want)
			}
		})
	}
}

// The Reconciler drops the time of the last reconcile and the versions of its writes with a deleted
// view. It keeps those of other views.
func TestStateOfDeletedViewIsDropped(t *testing.T) {
	w := newFixture(t)
	other := client.ObjectKey{Namespace: "ns", Name: "other"}
	written := func(namespace, name, version string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}}
	}
	floors := map[string]struct {
		writes *reconciler.ReadYourWrites
		prefix string
	}{
		"the view":       {&w.own.views.ReadYourWrites, ""},
		"the ConfigMap":  {&w.own.configMaps, contentPrefix},
		"the Deployment": {&w.own.deployments, viewerPrefix},
		"the Service":    {&w.own.services, viewerPrefix},
	}
	for _, key := range []client.ObjectKey{request.NamespacedName, other} {
		w.lastReconciled.Store(key, epoch)
		for _, f := range floors {
			f.writes.Observe(written(key.Namespace, f.prefix+key.Name, "2"))
		}
	}
	if _, err := w.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	for name, f := range floors {
		for key, want := range map[client.ObjectKey]bool{request.NamespacedName: false, other: true} {
			if got := f.writes.Stale(written(key.Namespace, f.prefix+key.Name, "1")); got != want {
				t.Errorf("%s of %s is stored: %t, want %t", name, key, got, want)
			}
		}
	}
}

// Dashboards and alerts depend on the name, the help text and the labels of the gauge.
func TestGaugeName(t *testing.T) {
	w := newFixture(t, view())
	if _, err := w.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	const want = `
# HELP leasehold_markdownview_available Whether the page of a MarkdownView is served (1) or not (0).
# TYPE leasehold_markdownview_available gauge
leasehold_markdownview_available{name="book",namespace="ns"} 0
`
	if err := testutil.CollectAndCompare(w.available, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

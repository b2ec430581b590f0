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

// The periodic look is due a period after the last reconcile that said something about the view. A
// failure is tried again by the queue; what has changed meanwhile, or has gone, was not seen.
func TestWhatIsALook(t *testing.T) {
	resource := schema.GroupResource{Resource: "x"}
	for name, tc := range map[string]struct {
		answers map[string]error
		want    bool
	}{
		"nothing fails":               {nil, true},
		"a write fails":               {map[string]error{"ConfigMap": apierrors.NewInternalError(errors.New("etcd"))}, true},
		"a write meets Conflict":      {map[string]error{"ConfigMap": apierrors.NewConflict(resource, "x", errors.New("changed"))}, false},
		"the report meets Conflict":   {map[string]error{"status": apierrors.NewConflict(resource, "x", errors.New("changed"))}, false},
		"the view went before report": {map[string]error{"status": apierrors.NewNotFound(resource, "book")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, view())
			w.answers = tc.answers
			_, _ = w.Reconcile(t.Context(), request) // a failure is tried again
			if at, known := w.looks.Load(request.NamespacedName); known != tc.want || known && at != w.Clock.Now() {
				t.Errorf("the last look was at %v: %t, want %t", at, known, tc.want)
			}
		})
	}
}

// Of a view that is gone nothing is remembered: its last look, and the versions of what was
// written for it. What is known of another view stays.
func TestNothingIsRememberedOfAViewThatIsGone(t *testing.T) {
	w := newWorld(t)
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
		w.looks.Store(key, epoch)
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
				t.Errorf("%s of %s is remembered: %t, want %t", name, key, got, want)
			}
		}
	}
}

// The name, the help text and the labels of the gauge are what dashboards and alerts are made of.
func TestTheGaugeIsNamed(t *testing.T) {
	w := newWorld(t, view())
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

package markdownview

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"leasehold.dev/api/v1beta1"
)

func requested(requests []reconcile.Request) string {
	names := []string{}
	for _, r := range requests {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return fmt.Sprint(names)
}

// Every view is reconciled once in each sync period.
func TestViewsDue(t *testing.T) {
	named := func(name string, with ...func(*v1beta1.MarkdownView)) client.Object {
		return view(append(with, func(v *v1beta1.MarkdownView) { v.Name, v.UID = name, types.UID(name) })...)
	}
	leaving := func(v *v1beta1.MarkdownView) { v.DeletionTimestamp, v.Finalizers = new(metav1.Now()), []string{"x"} }
	now := testingclock.NewFakeClock(epoch)
	r := &Reconciler{Client: fakeBuilder(t, named("seen"), named("new"), named("leaving", leaving)).Build(), Clock: now,
		Options: Options{SyncPeriod: 10 * time.Minute}}
	r.lastReconciled.Store(types.NamespacedName{Namespace: "ns", Name: "seen"}, epoch)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "[new]"},
		{8 * time.Minute, "[new]"},
		{4 * time.Minute, "[new seen]"}, // 12 minutes: after the period and its jitter of a tenth
	} {
		now.Step(step.after)
		if got := requested(r.viewsDue(t.Context(), nil)); got != step.want {
			t.Errorf("after %s more: due %s, want %s", step.after, got, step.want)
		}
	}
}

func TestViewsOf(t *testing.T) {
	owned := func(o client.Object, version, kind, name string, controls bool) client.Object {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: "u",
			Controller: new(controls)}})
		return o
	}
	controlled := func(o client.Object, kind, name string) client.Object {
		return owned(o, v1beta1.GroupVersion.String(), kind, name, true)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	for reason, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"owned": {controlled(&appsv1.Deployment{ObjectMeta: meta("viewer-a")},
			"MarkdownView", "a"), "[a]"},
		"a child's name, without an owner": {&corev1.Service{ObjectMeta: meta("viewer-a")}, "[a]"},
		"a child's name, with another owner": {controlled(&corev1.ConfigMap{ObjectMeta: meta("markdowns-a")},
			"MarkdownView", "b"), "[a b]"},
		"another name, owned": {controlled(&corev1.ConfigMap{ObjectMeta: meta("x")}, "MarkdownView", "b"),
			"[b]"},
		"owned by the kind of another group": {owned(&corev1.ConfigMap{ObjectMeta: meta("x")}, "example.com/v1beta1",
			"MarkdownView", "b", true), "[]"},
		"owned by a view that is no controller": {owned(&corev1.ConfigMap{ObjectMeta: meta("x")},
			v1beta1.GroupVersion.String(), "MarkdownView", "b", false), "[]"},
		"owned by another kind":                  {controlled(&corev1.ConfigMap{ObjectMeta: meta("x")}, "Tenant", "b"), "[]"},
		"a ConfigMap with a Deployment's prefix": {&corev1.ConfigMap{ObjectMeta: meta("viewer-a")}, "[]"},
		"only a prefix":                          {&corev1.Service{ObjectMeta: meta("viewer-")}, "[]"},
	} {
		requests := viewsOf(t.Context(), tc.object)
		if got := requested(requests); got != tc.want {
			t.Errorf("%s: enqueues %s, want %s", reason, got, tc.want)
		}
		for _, r := range requests {
			if r.Namespace != "ns" {
				t.Errorf("%s: enqueues a view in %q, want its own namespace", reason, r.Namespace)
			}
		}
	}
}

func TestWatchedObjectsMatchReads(t *testing.T) {
	var got []string
	for _, o := range WatchedObjects() {
		got = append(got, fmt.Sprintf("%T", o))
	}
	if want := "[*v1beta1.MarkdownView *v1.ConfigMap *v1.Deployment *v1.Service]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// fakeManager implements the part of a Manager that New uses.
type fakeManager struct {
	ctrl.Manager

	cached, live client.Client
	recorders    []string
}

func (m *fakeManager) GetClient() client.Client    { return m.cached }
func (m *fakeManager) GetAPIReader() client.Reader { return m.live }
func (m *fakeManager) GetEventRecorder(name string) recorder.EventRecorder {
	m.recorders = append(m.recorders, name)
	return events.NewFakeRecorder(1)
}

func TestNewSeparatesCacheAndLiveReads(t *testing.T) {
	mgr := &fakeManager{cached: &struct{ client.Client }{}, live: &struct{ client.Client }{}}
	now := testingclock.NewFakePassiveClock(epoch)
	r, err := New(mgr, Options{DefaultViewerImage: "v:3", SyncPeriod: time.Hour, Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	if r.Client != mgr.cached || r.Live != client.Reader(mgr.live) || r.Clock != clock.PassiveClock(now) ||
		r.Options.DefaultViewerImage != "v:3" ||
		r.Options.SyncPeriod != time.Hour || fmt.Sprint(mgr.recorders) != "[leasehold-markdownview]" {
		t.Errorf("%+v, recorders %q", r, mgr.recorders)
	}
	if !r.contents.TryAcquire(maxContents) || r.contents.TryAcquire(1) {
		t.Errorf("want slots for exactly %d contents", maxContents)
	}
	if r, err = New(mgr, Options{}); err != nil || r.Clock != clock.PassiveClock(clock.RealClock{}) {
		t.Errorf("%v, the clock %v, want the real one", err, r.Clock)
	}
}

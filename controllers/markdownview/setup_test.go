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
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
)

func requested(requests []reconcile.Request) string {
	keys := []string{}
	for _, r := range requests {
		keys = append(keys, r.String())
	}
	slices.Sort(keys)
	return fmt.Sprint(keys)
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
		{0, "[ns/new]"},
		{8 * time.Minute, "[ns/new]"},
		{4 * time.Minute, "[ns/new ns/seen]"}, // 12 minutes: after the period and its jitter of a tenth
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
			"MarkdownView", "a"), "[ns/a]"},
		"a child's name, without an owner": {&corev1.Service{ObjectMeta: meta("viewer-a")}, "[ns/a]"},
		"a child's name, with another owner": {controlled(&corev1.ConfigMap{ObjectMeta: meta("markdowns-a")},
			"MarkdownView", "b"), "[ns/a ns/b]"},
		"another name, owned": {controlled(&corev1.ConfigMap{ObjectMeta: meta("x")}, "MarkdownView", "b"),
			"[ns/b]"},
		"owned by the kind of another group": {owned(&corev1.ConfigMap{ObjectMeta: meta("x")}, "example.com/v1beta1",
			"MarkdownView", "b", true), "[]"},
		"owned by a view that is no controller": {owned(&corev1.ConfigMap{ObjectMeta: meta("x")},
			v1beta1.GroupVersion.String(), "MarkdownView", "b", false), "[]"},
		"owned by another kind":                  {controlled(&corev1.ConfigMap{ObjectMeta: meta("x")}, "Tenant", "b"), "[]"},
		"a ConfigMap with a Deployment's prefix": {&corev1.ConfigMap{ObjectMeta: meta("viewer-a")}, "[]"},
		"only a prefix":                          {&corev1.Service{ObjectMeta: meta("viewer-")}, "[]"},
	} {
		if got := requested(viewsOf(t.Context(), tc.object)); got != tc.want {
			t.Errorf("%s: enqueues %s, want %s", reason, got, tc.want)
		}
	}
}

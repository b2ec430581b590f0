package reconciler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

func objectAt(name, version string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

func TestStale(t *testing.T) {
	var w ReadYourWrites
	w.Observe(objectAt("a", "99"))
	w.Observe(objectAt("a", "100"))
	for reason, tc := range map[string]struct {
		object client.Object
		want   bool
	}{
		"older":                          {objectAt("a", "99"), true},
		"much older, with fewer digits":  {objectAt("a", "9"), true},
		"what was written":               {objectAt("a", "100"), false},
		"newer":                          {objectAt("a", "101"), false},
		"never written":                  {objectAt("b", "1"), false},
		"a version that cannot be read ": {objectAt("a", "abc"), false},
	} {
		if got := w.Stale(tc.object); got != tc.want {
			t.Errorf("%s: Stale = %v, want %v", reason, got, tc.want)
		}
	}
	w.Forget(client.ObjectKeyFromObject(objectAt("a", "")))
	if w.Stale(objectAt("a", "1")) {
		t.Error("a dropped object is not stale")
	}
}

// The API server answers the write that ends an object with the version from before.
func TestStale_after_removal_of_last_finalizer(t *testing.T) {
	held := objectAt("a", "").(*corev1.ConfigMap)
	held.UID, held.Finalizers, held.DeletionTimestamp = "first", []string{"example.com/ours", "example.com/theirs"},
		new(metav1.Now())
	c := fake.NewClientBuilder().WithObjects(held).Build()
	key := client.ObjectKeyFromObject(held)
	var w ReadYourWrites
	release := func(finalizer string) *corev1.ConfigMap {
		t.Helper()
		var judged corev1.ConfigMap
		if err := c.Get(t.Context(), key, &judged); err != nil {
			t.Fatal(err)
		}
		changed := judged.DeepCopy()
		controllerutil.RemoveFinalizer(changed, finalizer)
		if err := w.Patch(t.Context(), c, changed, &judged); err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if after := release("example.com/ours"); w.Stale(after) {
		t.Error("an object that another finalizer holds has not ended")
	}
	last := release("example.com/theirs")
	if !w.Stale(last) {
		t.Error("an object that has ended was taken for what is there")
	}
	again := last.DeepCopy()
	again.UID, again.ResourceVersion = "second", "1000000"
	if w.Stale(again) {
		t.Error("a recreated object counts as the deleted one")
	}
	w.Forget(key)
	if w.Stale(last) {
		t.Error("a dropped object is not stale")
	}
}

// Each kind of write is recorded if it succeeds, and only then.
func TestWritesAreRecorded(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid"}}
	for name, write := range map[string]func(*ReadYourWrites, client.Client, *corev1.Namespace, *corev1.Namespace) error{
		"Patch": func(w *ReadYourWrites, c client.Client, changed, base *corev1.Namespace) error {
			changed.Labels = map[string]string{"a": "b"}
			return w.Patch(t.Context(), c, changed, base)
		},
		"PatchStatus": func(w *ReadYourWrites, c client.Client, changed, base *corev1.Namespace) error {
			changed.Status.Phase = corev1.NamespaceTerminating
			return w.PatchStatus(t.Context(), c, changed, base)
		},
		"PatchStatusUnchanged": func(w *ReadYourWrites, c client.Client, changed, base *corev1.Namespace) error {
			changed.Status.Phase = corev1.NamespaceTerminating
			return w.PatchStatusUnchanged(t.Context(), c, changed, base)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(namespace.DeepCopy()).WithStatusSubresource(namespace).Build()
			base := &corev1.Namespace{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(namespace), base); err != nil {
				t.Fatal(err)
			}
			var w ReadYourWrites
			gone := base.DeepCopy()
			gone.Name = "gone"
			if err := write(&w, c, gone.DeepCopy(), gone); err == nil || w.Stale(gone) {
				t.Errorf("%v, and a failed write is recorded: %t", err, w.Stale(gone))
			}
			changed := base.DeepCopy()
			if err := write(&w, c, changed, base); err != nil {
				t.Fatal(err)
			}
			if !w.Stale(base) || w.Stale(changed) {
				t.Errorf("stale: %t for the former version and %t for the written one, want true and false", w.Stale(base),
					w.Stale(changed))
			}
		})
	}
}

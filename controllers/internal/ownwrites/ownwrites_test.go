package ownwrites

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

func at(name, version string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

func TestBehind(t *testing.T) {
	var f Floor
	f.Saw(at("a", "99"))
	f.Saw(at("a", "100"))
	for reason, tc := range map[string]struct {
		object client.Object
		want   bool
	}{
		"older":                          {at("a", "99"), true},
		"much older, with fewer digits":  {at("a", "9"), true},
		"what was written":               {at("a", "100"), false},
		"newer":                          {at("a", "101"), false},
		"never written":                  {at("b", "1"), false},
		"a version that cannot be read ": {at("a", "abc"), false},
	} {
		if got := f.Behind(tc.object); got != tc.want {
			t.Errorf("%s: Behind = %v, want %v", reason, got, tc.want)
		}
	}
	f.Forget(client.ObjectKeyFromObject(at("a", "")))
	if f.Behind(at("a", "1")) {
		t.Error("a forgotten object is behind nothing")
	}
}

// The API server answers the write that ends an object with the version from before.
func TestWhatWasEndedIsBehind(t *testing.T) {
	held := at("a", "").(*corev1.ConfigMap)
	held.UID, held.Finalizers, held.DeletionTimestamp = "first", []string{"example.com/ours", "example.com/theirs"}, new(metav1.Now())
	c := fake.NewClientBuilder().WithObjects(held).Build()
	key := client.ObjectKeyFromObject(held)
	var f Floor
	release := func(finalizer string) *corev1.ConfigMap {
		t.Helper()
		var judged corev1.ConfigMap
		if err := c.Get(t.Context(), key, &judged); err != nil {
			t.Fatal(err)
		}
		changed := judged.DeepCopy()
		controllerutil.RemoveFinalizer(changed, finalizer)
		if err := f.Patch(t.Context(), c, changed, &judged); err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if after := release("example.com/ours"); f.Behind(after) {
		t.Error("an object that another finalizer holds has not ended")
	}
	last := release("example.com/theirs")
	if !f.Behind(last) {
		t.Error("an object that has ended was taken for what is there")
	}
	again := last.DeepCopy()
	again.UID, again.ResourceVersion = "second", "1000000"
	if f.Behind(again) {
		t.Error("an object that was made anew was taken for the one that has ended")
	}
	f.Forget(key)
	if f.Behind(last) {
		t.Error("a forgotten object is behind nothing")
	}
}

// Each kind of write is remembered if it succeeds, and only then.
func TestWritesAreRemembered(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid"}}
	for name, write := range map[string]func(*Floor, client.Client, *corev1.Namespace, *corev1.Namespace) error{
		"Patch": func(f *Floor, c client.Client, changed, base *corev1.Namespace) error {
			changed.Labels = map[string]string{"a": "b"}
			return f.Patch(t.Context(), c, changed, base)
		},
		"PatchStatus": func(f *Floor, c client.Client, changed, base *corev1.Namespace) error {
			changed.Status.Phase = corev1.NamespaceTerminating
			return f.PatchStatus(t.Context(), c, changed, base)
		},
		"PatchStatusUnchanged": func(f *Floor, c client.Client, changed, base *corev1.Namespace) error {
			changed.Status.Phase = corev1.NamespaceTerminating
			return f.PatchStatusUnchanged(t.Context(), c, changed, base)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(namespace.DeepCopy()).WithStatusSubresource(namespace).Build()
			base := &corev1.Namespace{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(namespace), base); err != nil {
				t.Fatal(err)
			}
			var f Floor
			gone := base.DeepCopy()
			gone.Name = "gone"
			if err := write(&f, c, gone.DeepCopy(), gone); err == nil || f.Behind(gone) {
				t.Errorf("%v, and a write that failed is remembered: %t", err, f.Behind(gone))
			}
			changed := base.DeepCopy()
			if err := write(&f, c, changed, base); err != nil {
				t.Fatal(err)
			}
			if !f.Behind(base) || f.Behind(changed) {
				t.Errorf("behind are what was there before: %t, and what was written: %t", f.Behind(base), f.Behind(changed))
			}
		})
	}
}

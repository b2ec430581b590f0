package reconciler

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// versioned is a store with the child at a version; "" is none.
func versioned(t *testing.T, version string) client.Client {
	t.Helper()
	b := fake.NewClientBuilder().WithObjects(config("5"))
	if version != "" {
		child := config(version)
		child.Name = "child"
		b.WithObjects(child)
	}
	return b.Build()
}

// What was refused because the cache is behind is not judged by the cache again,
// until that has caught up.
func TestConflictMakesReconcilesReadPastTheCache(t *testing.T) {
	key, childKey := client.ObjectKey{Namespace: "n", Name: "a"}, client.ObjectKey{Namespace: "n", Name: "child"}
	conflict, failure := apierrors.NewConflict(schema.GroupResource{}, "child", errStale), errors.New("it failed")
	var state State
	for i, step := range []struct {
		cached, live string // versions of the child; "" is that there is none
		ends         error
		want         string // what the reconcile saw
	}{
		{"", "7", nil, ""},        // the cache is believed
		{"", "7", conflict, ""},   // and should not have been
		{"", "7", nil, "7"},       // an object that the cache does not show yet
		{"6", "7", nil, "7"},      // an older one
		{"6", "7", conflict, "7"}, // somebody else was faster
		{"7", "", nil, ""},        // one that has gone
		{"7", "8", nil, "8"},      // a newer one
		{"8", "8", failure, "8"},  // the cache has caught up, which a reconcile that failed does not show
		{"8", "9", nil, "9"},      // so it is not believed yet
		{"9", "9", nil, "9"},      // it has caught up
		{"9", "10", nil, "9"},     // so it is believed again
	} {
		cache, live := versioned(t, step.cached), versioned(t, step.live)
		var saw string
		_, _ = Reconcile(t.Context(), cache, live, &state, key, &corev1.ConfigMap{}, func() {}, // its result is TestReconcile's
			func(ctx context.Context, o *corev1.ConfigMap) (ctrl.Result, error) {
				var child corev1.ConfigMap
				err := state.Reader(client.ObjectKeyFromObject(o), cache, live).Get(ctx, childKey, &child)
				if client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
				saw = child.ResourceVersion
				return ctrl.Result{}, step.ends
			})
		if diff := cmp.Diff(step.want, saw); diff != "" {
			t.Errorf("reconcile %d (-want +got):\n%s", i+1, diff)
		}
	}
}

// A doubt is about the object itself, too: one that is gone is left alone at once.
func TestConflictMakesReconcilesReadTheObjectPastTheCache(t *testing.T) {
	key := client.ObjectKey{Namespace: "n", Name: "a"}
	late, gone := fake.NewClientBuilder().WithObjects(config("5")).Build(), 0
	var state State
	var saw []string
	for _, live := range []client.Client{
		fake.NewClientBuilder().WithObjects(config("7")).Build(), fake.NewClientBuilder().WithObjects(config("7")).Build(), fake.NewClientBuilder().Build(),
	} {
		_, _ = Reconcile(t.Context(), late, live, &state, key, &corev1.ConfigMap{}, func() { gone++ }, // its result is TestReconcile's
			func(_ context.Context, o *corev1.ConfigMap) (ctrl.Result, error) {
				saw = append(saw, o.ResourceVersion)
				return ctrl.Result{}, apierrors.NewConflict(schema.GroupResource{}, "a", errStale)
			})
	}
	if diff := cmp.Diff([]string{"5", "7"}, saw); diff != "" || gone != 1 {
		t.Errorf("gone %d times, reconciles (-want +got):\n%s", gone, diff)
	}
	if _, doubted := state.suspicions.Load(key); doubted {
		t.Error("the doubt about an object that is gone has stayed")
	}
}

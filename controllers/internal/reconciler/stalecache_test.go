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

// storeWithVersion returns a store with the child at a version; "" means no child.
func storeWithVersion(t *testing.T, version string) client.Client {
	t.Helper()
	b := fake.NewClientBuilder().WithObjects(config("5"))
	if version != "" {
		child := config(version)
		child.Name = "child"
		b.WithObjects(child)
	}
	return b.Build()
}

// After a Conflict because of a stale cache, reconciles read live until the cache has caught up.
func TestConflictCausesLiveReads(t *testing.T) {
	key, childKey := client.ObjectKey{Namespace: "n", Name: "a"}, client.ObjectKey{Namespace: "n", Name: "child"}
	conflict, failure := apierrors.NewConflict(schema.GroupResource{}, "child", errStale), errors.New("it failed")
	var state State
	for i, step := range []struct {
		cached, live string // versions of the child; "" means none
		ends         error
		want         string // the version that the reconcile read
	}{
		{"", "7", nil, ""},        // from the cache
		{"", "7", conflict, ""},   // from the cache, which is stale
		{"", "7", nil, "7"},       // not in the cache yet
		{"6", "7", nil, "7"},      // an older version
		{"6", "7", conflict, "7"}, // another client has written
		{"7", "", nil, ""},        // deleted
		{"7", "8", nil, "8"},      // a newer version
		{"8", "8", failure, "8"},  // the cache has caught up, but the reconcile failed
		{"8", "9", nil, "9"},      // so it still reads live
		{"9", "9", nil, "9"},      // the cache has caught up
		{"9", "10", nil, "9"},     // so it reads from the cache again
	} {
		cache, live := storeWithVersion(t, step.cached), storeWithVersion(t, step.live)
		var saw string
		// TestReconcile checks the result
		_, _ = Reconcile(t.Context(), cache, live, &state, key, &corev1.ConfigMap{}, func() {},
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

// After a Conflict the object itself is read live too: a reconcile of a deleted one ends at once.
func TestConflictCausesLiveReadOfObject(t *testing.T) {
	key := client.ObjectKey{Namespace: "n", Name: "a"}
	late, gone := fake.NewClientBuilder().WithObjects(config("5")).Build(), 0
	var state State
	var saw []string
	for _, live := range []client.Client{
		fake.NewClientBuilder().WithObjects(config("7")).Build(), fake.NewClientBuilder().WithObjects(config("7")).Build(),
		fake.NewClientBuilder().Build(),
	} {
		// TestReconcile checks the result
		_, _ = Reconcile(t.Context(), late, live, &state, key, &corev1.ConfigMap{}, func() { gone++ },
			func(_ context.Context, o *corev1.ConfigMap) (ctrl.Result, error) {
				saw = append(saw, o.ResourceVersion)
				return ctrl.Result{}, apierrors.NewConflict(schema.GroupResource{}, "a", errStale)
			})
	}
	if diff := cmp.Diff([]string{"5", "7"}, saw); diff != "" || gone != 1 {
		t.Errorf("gone %d times, reconciles (-want +got):\n%s", gone, diff)
	}
	if _, doubted := state.suspicions.Load(key); doubted {
		t.Error("the suspicion about a deleted object is kept")
	}
}

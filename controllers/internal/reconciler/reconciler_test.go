package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// fenceDenial is the API server's response to a request that the fence denies.
func fenceDenial() error {
	const message = "ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'b' denied request: Pod a " +
		"does not hold the Lease"
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New(message))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: message}}
	return err
}

func config(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "uid",
		ResourceVersion: version}}
}

func TestReconcile(t *testing.T) {
	key := types.NamespacedName{Namespace: "n", Name: "a"}
	wanted := ctrl.Result{RequeueAfter: 7}
	failure := errors.New("it failed")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a",
		errors.New(`User "x" cannot patch`))
	for name, tc := range map[string]struct {
		stored     []client.Object
		wrote      string // version of our own last write
		ends       error
		reconciles int
		gone       int
		result     ctrl.Result
		err        error
	}{
		"a good reconcile": {[]client.Object{config("5")}, "", nil, 1, 0, wanted, nil},
		"as we wrote it":   {[]client.Object{config("5")}, "5", nil, 1, 0, wanted, nil},
		"a late cache": {[]client.Object{config("5")}, "6", nil, 0, 0,
			ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil},
		"gone": {nil, "6", nil, 0, 1, ctrl.Result{}, nil},
		"a concurrent write": {[]client.Object{config("5")}, "",
			apierrors.NewConflict(schema.GroupResource{}, "a", failure), 1,
			0, ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil},
		"gone meanwhile": {[]client.Object{config("5")}, "", apierrors.NewNotFound(schema.GroupResource{}, "a"), 1, 0,
			ctrl.Result{}, nil},
		"another leader": {[]client.Object{config("5")}, "", fmt.Errorf("writing status: %w", fenceDenial()), 1, 0,
			ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil},
		"no right":  {[]client.Object{config("5")}, "", forbidden, 1, 0, wanted, forbidden},
		"a failure": {[]client.Object{config("5")}, "", failure, 1, 0, wanted, failure},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(tc.stored...).Build()
			var state State
			if tc.wrote != "" {
				state.Observe(config(tc.wrote))
			}
			reconciles, gone := 0, 0
			result, err := Reconcile(t.Context(), reader, reader, &state, key, &corev1.ConfigMap{}, func() { gone++ },
				func(context.Context, *corev1.ConfigMap) (ctrl.Result, error) { reconciles++; return wanted, tc.ends })
			if reconciles != tc.reconciles || gone != tc.gone || result != tc.result || !errors.Is(err, tc.err) {
				t.Errorf("%d reconciles, %d times gone, %v, %v, want %d, %d, %v, %v", reconciles, gone, result, err, tc.reconciles,
					tc.gone, tc.result, tc.err)
			}
			if tc.gone > 0 && state.Stale(config("1")) {
				t.Error("the writes to a deleted object are kept")
			}
		})
	}
}

func TestVerifyUnchanged(t *testing.T) {
	reader := fake.NewClientBuilder().WithObjects(config("5")).Build()
	other := config("5")
	other.UID = "other"
	for name, tc := range map[string]struct {
		judged  *corev1.ConfigMap
		changed bool
	}{
		"the same":            {config("5"), false},
		"another version":     {config("4"), true},
		"another of the name": {other, true},
		"gone": {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b",
			ResourceVersion: "5"}}, true},
	} {
		if err := VerifyUnchanged(t.Context(), reader, tc.judged,
			&corev1.ConfigMap{}); apierrors.IsConflict(err) != tc.changed || (err != nil) != tc.changed {
			t.Errorf("%s: %v, want a conflict: %t", name, err, tc.changed)
		}
	}
}

// controller-runtime logs the error of a reconcile. An error that quotes an object stays short there,
// and keeps its cause.
func TestErrorsHaveBoundedTexts(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Build()
	cause := errors.New(strings.Repeat("{APIGroups:[\"\"]} ", 10_000))
	_, err := Reconcile(t.Context(), c, c, &State{}, client.ObjectKey{Name: "a"}, &corev1.Namespace{}, func() {},
		func(context.Context, *corev1.Namespace) (ctrl.Result, error) { return ctrl.Result{}, cause })
	if !errors.Is(err, cause) || len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes, want at most 1000 with the cause", len(err.Error()))
	}
}

func TestNextDue(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const period = 10 * time.Minute
	buckets := map[int]int{}
	for i := range 1000 {
		uid := types.UID(fmt.Sprintf("uid-%d", i))
		due := NextDue(last, period, uid).Sub(last)
		if due < period || due > 11*time.Minute {
			t.Fatalf("%s is due after %s, want 10m and at most 1m more", uid, due)
		}
		if again := NextDue(last, period, uid).Sub(last); again != due {
			t.Fatalf("%s is due after %s and then after %s: the distance must not wander", uid, due, again)
		}
		buckets[int((due-period)/(6*time.Second))]++
	}
	// Ten slots of 6 s: a fleet of 1000 must not gather in any of them.
	for slot, n := range buckets {
		if n > 200 {
			t.Errorf("slot %d holds %d of 1000 objects: not spread", slot, n)
		}
	}
	if len(buckets) < 10 {
		t.Errorf("only %d of 10 slots are used", len(buckets))
	}
}

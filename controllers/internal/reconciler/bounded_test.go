package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

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

package reconciler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A denial is logged only if it repeats. Each object has its own count up to maxQuietDenials.
func TestRepeatedDenialsAreLogged(t *testing.T) {
	var said []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{}))
	other := config("5")
	other.Name = "b"
	reader := fake.NewClientBuilder().WithObjects(config("5"), other).Build()
	var state State
	run := func(name string, ends error) ctrl.Result {
		t.Helper()
		result, err := Reconcile(ctx, reader, reader, &state, types.NamespacedName{Namespace: "n", Name: name},
			&corev1.ConfigMap{}, func() {},
			func(context.Context, *corev1.ConfigMap) (ctrl.Result, error) { return ctrl.Result{}, ends })
		if err != nil {
			t.Fatalf("a denial became an error: %v", err)
		}
		return result
	}
	quiet := func(name string, times int) {
		t.Helper()
		var took time.Duration
		for range times {
			result := run(name, fenceDenial())
			took += result.RequeueAfter
		}
		if took != 5*time.Second {
			t.Fatalf("%d denials took %v, want 5s", times, took)
		}
		if len(said) > 0 {
			t.Fatalf("said %q of denials that may end soon", said)
		}
	}
	quiet("a", maxQuietDenials)
	quiet("b", maxQuietDenials)
	run("b", nil)
	quiet("b", maxQuietDenials) // a successful reconcile resets the count

	if result := run("a", fenceDenial()); result.RequeueAfter != 10*time.Second {
		t.Errorf("looked at again after %v, want 10s", result.RequeueAfter)
	}
	if len(said) != 1 || !strings.Contains(said[0], "--leader-election-id") ||
		!strings.Contains(said[0], `"error"="configmaps`) || !strings.Contains(said[0], "does not hold the Lease") {
		t.Errorf("said %q, want once what to look at", said)
	}
	state.Forget(types.NamespacedName{Namespace: "n", Name: "a"})
	said = nil
	quiet("a", maxQuietDenials) // another object with that name
}

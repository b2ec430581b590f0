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
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
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
		if len(logged) > 0 {
			t.Fatalf("logged %q of denials that may end soon", logged)
		}
	}
	quiet("a", maxQuietDenials)
	quiet("b", maxQuietDenials)
	run("b", nil)
	quiet("b", maxQuietDenials) // a successful reconcile resets the count

	if result := run("a", fenceDenial()); result.RequeueAfter != 10*time.Second {
		t.Errorf("requeued after %v, want 10s", result.RequeueAfter)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "--leader-election-id") ||
		!strings.Contains(logged[0], `"error"="configmaps`) || !strings.Contains(logged[0], "does not hold the Lease") {
		t.Errorf("logged %q, want once what to check", logged)
	}
	state.Forget(types.NamespacedName{Namespace: "n", Name: "a"})
	logged = nil
	quiet("a", maxQuietDenials) // another object with that name
}

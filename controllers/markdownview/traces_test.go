package markdownview

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The periodic look is due a period after the last pass that said something about the view. A
// failure is tried again by the queue; what has changed meanwhile, or has gone, was not seen.
func TestWhatIsALook(t *testing.T) {
	resource := schema.GroupResource{Resource: "x"}
	for name, tc := range map[string]struct {
		answers map[string]error
		want    bool
	}{
		"nothing fails":               {nil, true},
		"a write fails":               {map[string]error{"ConfigMap": apierrors.NewInternalError(errors.New("etcd"))}, true},
		"a write meets Conflict":      {map[string]error{"ConfigMap": apierrors.NewConflict(resource, "x", errors.New("changed"))}, false},
		"the report meets Conflict":   {map[string]error{"status": apierrors.NewConflict(resource, "x", errors.New("changed"))}, false},
		"the view went before report": {map[string]error{"status": apierrors.NewNotFound(resource, "book")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, view())
			w.answers = tc.answers
			_, _ = w.Reconcile(t.Context(), request) // a failure is tried again
			if at, known := w.looks.Load(request.NamespacedName); known != tc.want || known && at != w.Clock.Now() {
				t.Errorf("the last look was at %v: %t, want %t", at, known, tc.want)
			}
		})
	}
}

package storagebucket

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A terminating namespace hands nothing over: the bucket that it takes would be removed with it.
func TestTerminatingNamespaceHandsNothingOver(t *testing.T) {
	for name, want := range map[string]handover{"active": handoverGiven, "terminating": handoverNone} {
		t.Run(name, func(t *testing.T) {
			w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
			ns := handoverNamespace("former", "b")
			if name == "terminating" {
				ns.DeletionTimestamp, ns.Finalizers = new(metav1.NewTime(epoch)), []string{"example.com/f"}
			}
			w.Live = fake.NewClientBuilder().WithObjects(ns).Build()
			if got, err := w.handover(t.Context(), w.read(t), "former"); got != want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

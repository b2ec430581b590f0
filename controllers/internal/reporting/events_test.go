package reporting

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// relatedRecorder records the second objects of events, which the fake of client-go drops.
type relatedRecorder struct{ related []runtime.Object }

func (r *relatedRecorder) Eventf(_, related runtime.Object, _, _, _, _ string, _ ...any) {
	r.related = append(r.related, related)
}

// The recorder counts events about different namespaces as one if they lack the second object.
func TestFlush_names_related_object(t *testing.T) {
	recorder, related := &relatedRecorder{}, &corev1.ObjectReference{Kind: "Namespace", Name: "a"}
	pending := Normal("Created", "Create", "created")
	Flush(recorder, &corev1.Namespace{}, []PendingEvent{pending.About(related), pending})
	if diff := cmp.Diff([]runtime.Object{related, nil}, recorder.related); diff != "" {
		t.Errorf("related objects (-want +got):\n%s", diff)
	}
}

// Each pending event is recorded once, in order, with its type. A message with a per cent sign is no format.
func TestFlush(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	Flush(recorder, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, []PendingEvent{
		Normal("Updated", "Update", "%s is %d%% done", "a", 50), Warning("Failed", "Update", "%s", "100%s"),
	})
	close(recorder.Events)
	var got []string
	for e := range recorder.Events {
		got = append(got, e)
	}
	if diff := cmp.Diff([]string{"Normal Updated a is 50% done", "Warning Failed 100%s"}, got); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

package reporting

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

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

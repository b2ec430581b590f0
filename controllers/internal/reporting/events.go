package reporting

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// PendingEvent is an event that a reconcile has decided on and records after its last
// write. The recorder counts events of the same type, reason, action, object and related
// object as one and keeps the first message, so two events must differ in one of these.
type PendingEvent struct {
	Type, Reason, Action, Message string
	// Related is the second object of the event, nil if there is none.
	Related runtime.Object
}

// Normal returns a PendingEvent of type Normal.
func Normal(reason, action, format string, args ...any) PendingEvent {
	return PendingEvent{Type: corev1.EventTypeNormal, Reason: reason, Action: action,
		Message: fmt.Sprintf(format, args...)}
}

// Warning returns a PendingEvent of type Warning.
func Warning(reason, action, format string, args ...any) PendingEvent {
	return PendingEvent{Type: corev1.EventTypeWarning, Reason: reason, Action: action,
		Message: fmt.Sprintf(format, args...)}
}

// About returns the event with another related object.
func (e PendingEvent) About(related runtime.Object) PendingEvent {
	e.Related = related
	return e
}

// Flush records pending events regarding one object.
func Flush(recorder events.EventRecorder, regarding runtime.Object, pending []PendingEvent) {
	for _, e := range pending {
		recorder.Eventf(regarding, e.Related, e.Type, e.Reason, e.Action, "%s", e.Message)
	}
}

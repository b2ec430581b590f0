// Package notes holds the events that a pass has decided on until they are
// recorded, which comes last.
package notes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Note is one event to be recorded. Events of the same type, reason, action,
// object and related object are counted as one, and only the first one's text is
// kept; so what makes two of them different has to be among these.
type Note struct {
	Type, Reason, Action, Message string
	// Related is the other object it is about; nil if there is none.
	Related runtime.Object
}

// Normal is a Note of type Normal.
func Normal(reason, action, format string, args ...any) Note {
	return Note{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

// Warning is a Note of type Warning.
func Warning(reason, action, format string, args ...any) Note {
	return Note{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

// About returns the Note with another related object.
func (n Note) About(related runtime.Object) Note {
	n.Related = related
	return n
}

// Emit records the notes as events regarding one object.
func Emit(recorder events.EventRecorder, regarding runtime.Object, list []Note) {
	for _, n := range list {
		recorder.Eventf(regarding, n.Related, n.Type, n.Reason, n.Action, "%s", n.Message)
	}
}

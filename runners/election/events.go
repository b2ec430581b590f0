// SPDX-License-Identifier: Apache-2.0

package election

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

const (
	eventReason = "LeaderElection"
	// eventAction is the action of events, which events.k8s.io requires.
	eventAction = "Elect"
	// becameLeader is the elector's argument of RecordEvent after a takeover.
	becameLeader = "became leader"
)

// recorder writes the events of the election through events.k8s.io, so no rights on core
// events are needed.
type recorder struct{ to events.EventRecorder }

// RecordWith sends the events of the election to r. The lock is needed to build
// the manager, and the recorder comes from the manager, hence the second step;
// it must be done before the manager starts. Without it there are no events.
func (l *Lock) RecordWith(r events.EventRecorder) { l.recorder.to = r }

// RecordEvent implements resourcelock.Interface. It adds to a takeover why it was possible.
func (l *Lock) RecordEvent(what string) {
	if l.recorder.to == nil {
		return
	}
	if what == becameLeader {
		what += ": " + l.reason
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.lease.Namespace, Name: l.lease.Name}}
	if l.stored != nil {
		lease.ObjectMeta = l.stored.ObjectMeta
	}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	l.recorder.to.Eventf(lease, nil, corev1.EventTypeNormal, eventReason, eventAction, "%s %s", l.identity, what)
}

// SPDX-License-Identifier: Apache-2.0

package election

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// becameLeader is the elector's argument of RecordEvent after a takeover.
const becameLeader = "became leader"

// RecordWith makes the lock send the events of the election to r, through events.k8s.io, so no
// rights on core events are needed. Call it before the manager starts. It is separate from NewLock
// because the manager provides the recorder and needs the lock first. Without RecordWith there are
// no events.
func (l *Lock) RecordWith(r events.EventRecorder) { l.recorder = r }

// RecordEvent implements resourcelock.Interface. To the event of a takeover, it adds the reason
// that permitted the takeover.
func (l *Lock) RecordEvent(what string) {
	if l.recorder == nil {
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
	l.recorder.Eventf(lease, nil, corev1.EventTypeNormal, "LeaderElection", "Elect", "%s %s", l.identity, what)
}

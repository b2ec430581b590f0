// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
)

// loss is the loss of a leader. The times are those of this machine's clock, which the API server uses too.
type loss struct {
	leader string    // the Pod
	at     time.Time // of the kill, stop, pause or cut
	woken  time.Time // when the process was resumed; zero if it was not paused
	ended  time.Time // when the process had ended
}

// handover is one change of leaders in the API server's log. A time is zero if the event did not happen.
type handover struct {
	loss
	next     string    // the Pod of the next leader
	renewed  time.Time // of the old leader's last accepted renewal
	expired  time.Time // when the Lease of that renewal expired
	last     time.Time // of the old leader's last accepted write before another led
	released time.Time // when the old leader had released the Lease
	reported time.Time // when the status of the old leader's Pod reported the end of its process
	acquired time.Time // when the new leader had acquired the Lease
	first    time.Time // of the new leader's first accepted write
	// strays is the number of accepted writes by replicas that did not lead, and undecided the
	// number of writes for which that is unknown.
	strays, undecided int
	// calls is the number of S3 requests after expired from any process but the next leader's.
	calls int
}

// errNoSuccessor means that the log has no next leader.
var errNoSuccessor = errors.New("no other replica came to lead")

// observe reads from the log, which must begin with a renewal by the leader, how it was replaced.
func observe(events []auditv1.Event, l loss) (handover, error) {
	h := handover{loss: l}
	writes := record.Writes(events, leasehold.User, record.Not(aboutLease), record.Not(isEvent))
	accepted := record.Select(writes, record.Succeeded)
	leadership, err := leasehold.JudgeWrites(events, record.Select(accepted, record.Since(l.at)))
	if err != nil {
		return h, err
	}
	h.strays, h.undecided = len(leadership.Strays), len(leadership.Undecided)
	for _, e := range record.Select(events, record.Resource("", "pods"), record.Succeeded, record.Named(l.leader),
		record.Since(l.at)) {
		if h.reported.IsZero() && e.ObjectRef.Subresource == "status" {
			h.reported = e.StageTimestamp.Time
		}
	}
	if err := h.follow(leadership.Terms); err != nil {
		return h, err
	}
	for _, e := range record.Select(events, record.User(leasehold.User), aboutLease, record.Succeeded, by(l.leader)) {
		if received := e.RequestReceivedTimestamp.Time; received.Before(h.acquired) {
			if expired, held := expiryOf(e); held {
				h.renewed, h.expired = received, expired
			}
		}
	}
	for _, w := range accepted {
		switch at := w.StageTimestamp.Time; record.PodOf(w) {
		case l.leader:
			if at.Before(h.acquired) && at.After(h.last) {
				h.last = at
			}
		case h.next:
			if at.After(h.acquired) && (h.first.IsZero() || at.Before(h.first)) {
				h.first = at
			}
		}
	}
	if h.first.IsZero() {
		return h, fmt.Errorf("the new leader %s has written nothing", h.next)
	}
	return h, nil
}

// follow finds the next leader.
func (h *handover) follow(terms []history.Term) error {
	led := ""
	for _, t := range terms {
		switch {
		case t.At.Before(h.at):
			led = t.Holder
		case t.Holder == "":
			h.released = t.At
		case t.Holder != h.leader && led == h.leader:
			h.acquired, h.next = t.At, t.Holder
			return nil
		}
	}
	if led != h.leader {
		return fmt.Errorf("%s was to be lost as the leader, and %q led", h.leader, led)
	}
	return errNoSuccessor
}

var aboutLease = record.Resource("coordination.k8s.io", "leases")

func isEvent(e auditv1.Event) bool {
	return record.Resource("events.k8s.io", "events")(e) || record.Resource("", "events")(e)
}

func by(pod string) record.Filter {
	return func(e auditv1.Event) bool { return record.PodOf(e) == pod }
}

// expiryOf returns when the Lease in the response expires; held is false if it has no holder.
func expiryOf(e auditv1.Event) (at time.Time, held bool) {
	var lease coordinationv1.Lease
	if e.ResponseObject == nil || json.Unmarshal(e.ResponseObject.Raw, &lease) != nil {
		return at, false
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Add(lasts), ptr.Deref(lease.Spec.HolderIdentity, "") != ""
}

// callsAfter counts requests that arrived after the end of a term, except for those of the next leader.
func callsAfter(j fault.Journal, end time.Time, next string) (n int) {
	for _, r := range j.Requests {
		if r.Received.After(end) && r.Peer != next {
			n++
		}
	}
	return n
}

package record

import (
	"fmt"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
)

// podNameKey is the audit attribute with the Pod that a token belongs to.
const podNameKey = "authentication.kubernetes.io/pod-name"

// Leadership is which Pod led at which revision, and the writes of other Pods.
type Leadership struct {
	// Terms are in the order in which they began. At is at the latest when the API server had answered
	// the write that began the next term: it may finish two answers in the other order.
	Terms []history.Term
	// Judged is how many writes were found to come from the leader of their time.
	Judged int
	// Strays came from a Pod that did not lead when they were stored.
	Strays []Stray
	// Undecided are writes without a version in the answer, about the time of a change of leader.
	// They may have come before or after it.
	Undecided []Stray
}

// Stray is a write by a Pod that is not known to have led.
type Stray struct {
	auditv1.Event
	// Pod sent it; "" is a user without a Pod. Leaders held the Lease then; "" is no
	// holder. Leaders is empty if the log does not go back far enough.
	Pod     string
	Leaders []string
}

// String describes the write, its sender and the leaders.
func (s Stray) String() string {
	return fmt.Sprintf("%s %s by Pod %q at %s under %q", s.Verb, s.RequestURI, s.Pod,
		s.StageTimestamp.UTC().Format(time.StampMicro), s.Leaders)
}

// Judge finds which of the writes, each of which has succeeded, did not come from the Pod that held
// the Lease at the version with which they were stored. The events are all of the log, the writes
// among them; see FromAudit. It needs the answers of writes to the Lease. A write that changed
// nothing is not judged.
func Judge(events, writes []auditv1.Event, namespace, lease string) (Leadership, error) {
	h, err := FromAudit(events)
	if err != nil {
		return Leadership{}, err
	}
	key := history.Key{Resource: history.Leases, Namespace: namespace, Name: lease}
	requests := map[string]history.Request{}
	for _, r := range h.Requests {
		if _, exact := r.Exact(); !exact && r.Key == key && r.Effect == history.Stored {
			return Leadership{}, fmt.Errorf("the log has no answer to the %s of the Lease at %s", r.Verb, r.Answered)
		}
		requests[r.ID] = r
	}
	l := Leadership{Terms: h.Terms(key)}
	for i := len(l.Terms) - 2; i >= 0; i-- {
		if next := l.Terms[i+1].At; l.Terms[i].At.After(next) {
			l.Terms[i].At = next
		}
	}
	for _, w := range writes {
		r := requests[string(w.AuditID)]
		if r.Effect == history.Unchanged {
			continue
		}
		stray := Stray{Event: w, Pod: r.Replica, Leaders: history.HeldDuring(l.Terms, r.RevisionRange)}
		switch {
		case stray.Pod == "" || !slices.Contains(stray.Leaders, stray.Pod):
			l.Strays = append(l.Strays, stray)
		case len(stray.Leaders) > 1:
			l.Undecided = append(l.Undecided, stray)
		default:
			l.Judged++
		}
	}
	return l, nil
}

// PodOf returns the Pod whose token the request came with, or "".
func PodOf(e auditv1.Event) string {
	if names := e.User.Extra[podNameKey]; len(names) == 1 {
		return names[0]
	}
	return ""
}

package counts

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/performance/stage"
)

// ledger knows what every request in an audit log did to the store.
type ledger struct {
	effects map[string]history.Effect // by audit ID
}

// newLedger reads a log from its beginning: what a write did is told by the versions
// of others before and after it.
func newLedger(events []auditv1.Event) (*ledger, error) {
	h, err := record.FromAudit(events)
	if err != nil {
		return nil, fmt.Errorf("reading what the requests did: %w", err)
	}
	l := &ledger{effects: map[string]history.Effect{}}
	for _, r := range h.Requests {
		l.effects[r.ID] = r.Effect
	}
	return l, nil
}

// tally counts a part of the log: what is the same in every run, and what is not.
func (l *ledger) tally(events []auditv1.Event) (counts, timed map[string]int) {
	counts, timed = map[string]int{}, map[string]int{}
	for _, e := range events {
		key, ok := keyOf(e)
		switch {
		case !ok:
		case record.Conflicted(e):
			timed["conflict "+verbOf(e)+" "+resourceOf(e)]++
		default:
			counts[key]++
			if l.effects[string(e.AuditID)] == history.Unchanged {
				counts["no-op "+verbOf(e)+" "+resourceOf(e)]++
			}
		}
	}
	return counts, timed
}

// keyOf is what an audit event is counted as; none if it is not one of the
// controllers' requests.
func keyOf(e auditv1.Event) (key string, ok bool) {
	if e.ObjectRef == nil || !record.User(stage.User)(e) || upkeep(e) {
		return "", false
	}
	switch verb := verbOf(e); {
	case verb == "watch":
		// Once, when it begins: when it ends is up to the server.
		return "watch " + resourceOf(e), e.Stage == auditv1.StageResponseStarted
	case e.Stage != auditv1.StageResponseComplete && e.Stage != auditv1.StagePanic:
		return "", false
	case verb == "get" || verb == "list":
		return "read " + verb + " " + resourceOf(e), true
	case refused(e):
		return fmt.Sprintf("refused %d %s %s", e.ResponseStatus.Code, verb, resourceOf(e)), true
	case e.ObjectRef.Resource == "events":
		return eventKey(e)
	default:
		return "write " + verb + " " + resourceOf(e), true
	}
}

// upkeep is what the operator does at times of its own, whatever happens to objects.
func upkeep(e auditv1.Event) bool {
	switch o := e.ObjectRef; {
	case o.Resource == "leases":
		// Renewed by the leader every retry period, and watched by the others.
		return true
	case o.Resource == "pods" && o.Namespace == stage.Namespace:
		// A standby watches the leader's.
		return true
	case o.APIGroup == "authentication.k8s.io" || o.APIGroup == "authorization.k8s.io":
		// Reviews answer who asks the webhooks and the metrics, for as long as they
		// are remembered.
		return true
	case o.APIGroup == "admissionregistration.k8s.io", o.Resource == "secrets" && o.Namespace == stage.Namespace:
		// The webhooks' certificate is issued once, and looked after by whoever leads.
		return true
	case o.Resource == "endpointslices" || o.Resource == "servicecidrs":
		// Which addresses may not be dialled is learned before the first probe, and
		// again when that is ten minutes ago.
		return true
	}
	return false
}

func refused(e auditv1.Event) bool {
	return e.ResponseStatus != nil && e.ResponseStatus.Code >= 400 && !record.Conflicted(e)
}

// verbOf is the verb; an apply that has made an object is a create.
func verbOf(e auditv1.Event) string {
	if e.Verb == "patch" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusCreated {
		return "create"
	}
	return e.Verb
}

func resourceOf(e auditv1.Event) string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// eventKey is by the kind of the object and the reason. The answer has the event
// whole, whether it is a new one or one more of a series. What the election says of
// itself goes with its Lease.
func eventKey(e auditv1.Event) (string, bool) {
	var event struct {
		Regarding struct{ Kind string } `json:"regarding"`
		Reason    string                `json:"reason"`
	}
	if e.ResponseObject == nil || json.Unmarshal(e.ResponseObject.Raw, &event) != nil || event.Regarding.Kind == "" {
		return "write " + verbOf(e) + " events", true
	}
	key := "event " + event.Regarding.Kind + " " + event.Reason
	if e.Verb == "patch" {
		key += " again"
	}
	return key, event.Regarding.Kind != "Lease"
}

// ours are the events that are counted.
func ours(events []auditv1.Event) []auditv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool {
		_, ok := keyOf(e)
		return !ok
	})
}

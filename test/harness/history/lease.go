package history

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Leases is the resource of Leases.
var Leases = Resource{Group: "coordination.k8s.io", Resource: "leases"}

// Term is a time of leadership. It lasts until the next one begins.
type Term struct {
	// Holder is the replica that leads; "" is nobody: the Lease was released, or
	// is not there.
	Holder string
	// Span is when it began.
	Span
	// At is when whoever changed the Lease was answered.
	At time.Time
}

// Terms reads a Lease's versions, which must be in order. An identity is the
// replica's that put it there: each puts its own. Where nobody recorded who did, it
// is the identity up to the first "_", which is the Pod's name for every program
// that uses client-go in a Pod; a process outside has its machine's name there. A
// renewal continues a term. A replica that was started again begins a new one, as its
// identity is new.
func (h *History) Terms(lease Key) []Term {
	replicas := h.identities(lease)
	var terms []Term
	before := ""
	for _, v := range h.Versions {
		if v.Key != lease {
			continue
		}
		term := Term{Span: v.Span, At: v.At}
		identity := holderOf(v)
		if replica, known := replicas[identity]; known {
			term.Holder = replica
		} else {
			term.Holder, _, _ = strings.Cut(identity, "_")
		}
		if last := len(terms) - 1; last >= 0 && terms[last].Holder == term.Holder && before == identity {
			continue
		}
		before = identity
		terms = append(terms, term)
	}
	return terms
}

// identities are the replicas by the identities that they have put into a Lease.
func (h *History) identities(lease Key) map[string]string {
	writers := map[Span]string{}
	for _, r := range h.Requests {
		if r.Key == lease && r.Effect == Stored && r.Replica != "" {
			writers[r.Span] = r.Replica
		}
	}
	replicas := map[string]string{}
	for _, v := range h.Versions {
		if replica, known := writers[v.Span]; known && v.Key == lease && holderOf(v) != "" {
			replicas[holderOf(v)] = replica
		}
	}
	return replicas
}

// holderOf is the identity in a version of a Lease; "" is that nobody holds it.
func holderOf(v Version) string {
	if v.Gone {
		return ""
	}
	identity, _, _ := unstructured.NestedString(v.Object.Object, "spec", "holderIdentity")
	return identity
}

// HeldDuring returns those who may have led when something happened: one if that
// can be told, none if the history does not go back far enough.
func HeldDuring(terms []Term, s Span) []string {
	var found []string
	for i, t := range terms {
		ended := i+1 < len(terms) && terms[i+1].Before(s)
		if !ended && !s.Before(t.Span) && !slices.Contains(found, t.Holder) {
			found = append(found, t.Holder)
		}
	}
	return found
}

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

// Terms reads a Lease's versions, which must be in order. The holder is the
// holder's identity up to the first "_", which is the Pod's name for every
// program that uses client-go. A renewal continues a term, and so does the same
// holder after a restart.
func Terms(versions []Version, lease Key) []Term {
	var terms []Term
	for _, v := range versions {
		if v.Key != lease {
			continue
		}
		term := Term{Span: v.Span, At: v.At}
		if !v.Gone {
			identity, _, _ := unstructured.NestedString(v.Object.Object, "spec", "holderIdentity")
			term.Holder, _, _ = strings.Cut(identity, "_")
		}
		if last := len(terms) - 1; last >= 0 && terms[last].Holder == term.Holder {
			continue
		}
		terms = append(terms, term)
	}
	return terms
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

// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Leases is the resource of Leases.
var Leases = Resource{Group: "coordination.k8s.io", Resource: "leases"}

// LeaseRelease is a write of the Lease by the harness, which removed the identity of an ended
// process. So the run does not show how the operator handles an expired Lease.
type LeaseRelease struct {
	Replica string `json:"replica"`
	// Identity held the Lease.
	Identity string `json:"identity"`
	// ResourceVersion is that of the Lease without a holder.
	ResourceVersion string    `json:"resourceVersion"`
	At              time.Time `json:"at"`
}

// String names the replica.
func (r LeaseRelease) String() string {
	return fmt.Sprintf("the harness, not the operator, released the Lease of replica %s, whose process had ended, at resourceVersion %s", r.Replica, r.ResourceVersion)
}

// Term is a time of leadership. It lasts until the next one begins.
type Term struct {
	// Holder is the replica that leads. It is empty if the Lease was released or does not exist.
	Holder string
	// RevisionRange is the revision that began the term.
	RevisionRange
	// At is when the write that began the term was answered. It is not after the next term's, though
	// the API server may finish two answers in the other order.
	At time.Time
}

// Terms returns the terms of leadership in the versions of a Lease. An identity belongs to the
// replica that wrote it. Without a recorded writer, the replica is the identity up to the first
// "_", which is the Pod's name for programs with client-go. A renewal continues a term. A
// restarted replica has a new identity, so it begins a new term.
func (h *History) Terms(lease Key) []Term {
	replicas := h.identities(lease)
	var terms []Term
	before := ""
	for _, v := range h.Versions {
		if v.Key != lease {
			continue
		}
		term := Term{RevisionRange: v.RevisionRange, At: v.At}
		identity := v.HolderIdentity()
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
	for i := len(terms) - 2; i >= 0; i-- {
		if next := terms[i+1].At; terms[i].At.After(next) {
			terms[i].At = next
		}
	}
	return terms
}

// identities are the replicas by the identities that they have put into a Lease.
func (h *History) identities(lease Key) map[string]string {
	writers := map[RevisionRange]string{}
	for _, r := range h.Requests {
		if r.Key == lease && r.Effect == Stored && r.Replica != "" {
			writers[r.RevisionRange] = r.Replica
		}
	}
	replicas := map[string]string{}
	for _, v := range h.Versions {
		if replica, known := writers[v.RevisionRange]; known && v.Key == lease && v.HolderIdentity() != "" {
			replicas[v.HolderIdentity()] = replica
		}
	}
	return replicas
}

// HolderIdentity returns the identity that holds this version of a Lease; "" means no holder.
func (v Version) HolderIdentity() string {
	if v.Gone {
		return ""
	}
	identity, _, _ := unstructured.NestedString(v.Object.Object, "spec", "holderIdentity")
	return identity
}

// HeldDuring returns the replicas that may have led in a range: one if that is certain, none if
// the history starts too late.
func HeldDuring(terms []Term, s RevisionRange) []string {
	var found []string
	for i, t := range terms {
		ended := i+1 < len(terms) && terms[i+1].Before(s)
		if !ended && !s.Before(t.RevisionRange) && !slices.Contains(found, t.Holder) {
			found = append(found, t.Holder)
		}
	}
	return found
}

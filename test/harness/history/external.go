// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Action is the effect that a call requests of the external system.
type Action string

const (
	// Create creates a thing.
	Create Action = "create"
	// Delete removes a thing.
	Delete Action = "delete"
	// Get reads whether a thing exists, or its owner.
	Get Action = "get"
	// Change is anything else that changes something.
	Change Action = "change"
)

// CallOutcome is the result of a call, from the view of the external system.
type CallOutcome string

const (
	// Done means that the action was completed.
	Done CallOutcome = "done"
	// Accepted means that the action will be completed later. It proves nothing yet.
	Accepted CallOutcome = "accepted"
	// Absent means that the system answered that the thing does not exist.
	Absent CallOutcome = "absent"
	// Failed means that the action had no effect.
	Failed CallOutcome = "failed"
	// Lost means that the effect is unknown.
	Lost CallOutcome = "lost"
)

// Call is one request to a system outside the cluster.
type Call struct {
	ID      string `json:"id"`
	Replica string `json:"replica,omitempty"`
	Action  Action `json:"action"`
	// Thing is the name of the external object, such as a bucket.
	Thing string `json:"thing"`
	// Owner is the UID in the call's tag or signature; "" if there is none.
	Owner   types.UID   `json:"owner,omitempty"`
	Outcome CallOutcome `json:"outcome"`
	// Delivered means that the replica received the answer.
	Delivered bool      `json:"delivered"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	RevisionRange
}

// String describes the call and its place in the history.
func (c Call) String() string {
	return string(c.Action) + " of external " + c.Thing + " for UID " + cmp.Or(string(c.Owner), "(none)") +
		" by replica " + cmp.Or(c.Replica, "(none)") + " " + c.RevisionRange.String() + ": " + string(c.Outcome)
}

// ExternalThing is a thing that really exists in an external system.
type ExternalThing struct {
	Name string `json:"name"`
	// Owner is the UID in its tag; "" if it has none.
	Owner types.UID `json:"owner,omitempty"`
}

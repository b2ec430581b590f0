package history

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Action is what a call asks of the external system.
type Action string

const (
	// Create makes a thing.
	Create Action = "create"
	// Delete removes a thing.
	Delete Action = "delete"
	// Look asks whether a thing is there, or whose it is.
	Look Action = "look"
	// Change is anything else that changes something.
	Change Action = "change"
)

// Outcome is what became of a call, as the external system knows it.
type Outcome string

const (
	// Done is that it was done, wholly.
	Done Outcome = "done"
	// Accepted is that it will be done some time; nothing is proved yet.
	Accepted Outcome = "accepted"
	// Absent is that the system itself said that there is no such thing.
	Absent Outcome = "absent"
	// Failed is that it was not done.
	Failed Outcome = "failed"
	// Lost is that nobody knows.
	Lost Outcome = "lost"
)

// Call is one request to a system outside the cluster.
type Call struct {
	ID      string `json:"id"`
	Replica string `json:"replica,omitempty"`
	Action  Action `json:"action"`
	// Thing is what it is about, such as a bucket.
	Thing string `json:"thing"`
	// Owner is the UID with which the call marked what it made, or under which it
	// was sent; "" if it carried none.
	Owner   types.UID `json:"owner,omitempty"`
	Outcome Outcome   `json:"outcome"`
	// Delivered says that the replica got the answer.
	Delivered bool      `json:"delivered"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended"`
	Span
}

// String says what was asked for and when.
func (c Call) String() string {
	return string(c.Action) + " of external " + c.Thing + " for UID " + orNone(string(c.Owner)) +
		" by replica " + orNone(c.Replica) + " " + c.Span.String() + ": " + string(c.Outcome)
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// Thing is what is really there in an external system.
type Thing struct {
	Name string `json:"name"`
	// Owner is the UID that its mark names; "" if it has none.
	Owner types.UID `json:"owner,omitempty"`
}

// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Resource is a kind of object as URLs have it, without its API version.
type Resource struct {
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
}

// Secrets is the resource of Secrets. A history has hashes in place of their values.
var Secrets = Resource{Resource: "secrets"}

// String is the resource with its group, as in "deployments.apps".
func (r Resource) String() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// Key names an object among those that exist at one time.
type Key struct {
	Resource
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns resource, namespace and name, as in "deployments.apps ns/name", without the parts
// that are empty.
func (k Key) String() string {
	return strings.TrimRight(k.Resource.String()+" "+strings.Trim(k.Namespace+"/"+k.Name, "/"), " ")
}

// Effect is the effect of a request on the store.
type Effect string

const (
	// Read means that the request only reads. A watch is one request.
	Read Effect = "read"
	// Stored means that the request stored a new version.
	Stored Effect = "stored"
	// Deleted means that the object was removed: by a deletion, or by a write that removed the
	// last finalizer of a terminating object.
	Deleted Effect = "deleted"
	// Unchanged means that the request was accepted and had no effect.
	Unchanged Effect = "unchanged"
	// Refused means a 4xx answer, or none that is known.
	Refused Effect = "refused"
	// Unknown means a 5xx answer, for example a timeout. The request may have been stored.
	Unknown Effect = "unknown"
	// Dry means that nothing is stored: dry runs, reviews, tokens.
	Dry Effect = "dry"
)

// Request is one request that reached the API server.
type Request struct {
	ID   string `json:"id"`
	User string `json:"user"`
	// Replica is the Pod that the request's token belongs to; "" if to none.
	Replica string `json:"replica,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Verb    string `json:"verb"`
	Key
	Subresource string `json:"subresource,omitempty"`
	// UID is the object's, where the answer or a precondition names it.
	UID types.UID `json:"uid,omitempty"`
	RevisionRange
	Received time.Time `json:"received"`
	Answered time.Time `json:"answered"`
	Code     int       `json:"code"`
	// Reason is the API's short word for a refusal, such as Conflict.
	Reason string `json:"reason,omitempty"`
	// Forbidden means that authorization refused it, not admission.
	Forbidden bool   `json:"forbidden,omitempty"`
	Effect    Effect `json:"effect"`

	// Apply is a server-side apply, Force one that takes fields from others.
	Apply bool `json:"apply,omitempty"`
	Force bool `json:"force,omitempty"`
	// NeedsUID and NeedsVersion are the preconditions it carried.
	NeedsUID     types.UID `json:"needsUID,omitempty"`
	NeedsVersion string    `json:"needsVersion,omitempty"`
	// Made means that the object did not exist before. The UID is unknown where the log does not have the answer, as for
	// Secrets.
	Made bool `json:"made,omitempty"`
	// Body means that the log has the request's body. Without it, preconditions are unknown.
	Body bool `json:"body,omitempty"`
}

// Write reports whether the request was a write, whatever its effect.
func (r Request) Write() bool { return r.Effect != Read && r.Effect != Dry }

// Done reports whether the request changed an object.
func (r Request) Done() bool { return r.Effect == Stored || r.Effect == Deleted }

// String describes the request, its sender and its revision.
func (r Request) String() string {
	who := r.User
	if r.Replica != "" {
		who = "replica " + r.Replica
	}
	what := r.Key.String()
	if r.Subresource != "" {
		what += " (" + r.Subresource + ")"
	}
	return fmt.Sprintf("%s of %s by %s %s, answered %d", r.Verb, what, who, r.When(), r.Code)
}

// Event is a request that wrote an event about an object.
type Event struct {
	User    string `json:"user"`
	Replica string `json:"replica,omitempty"`
	// Regarding is the UID of the object that it is about.
	Regarding types.UID `json:"regarding"`
	Type      string    `json:"type"`
	Reason    string    `json:"reason"`
	Note      string    `json:"note,omitempty"`
	// First means that it is a new event and no repetition.
	First bool `json:"first,omitempty"`
	// Observed is when the last event of a series occurred, zero if it is no series.
	Observed time.Time `json:"observed,omitzero"`
	RevisionRange
	At time.Time `json:"at"`
}

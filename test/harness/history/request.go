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

// String is resource, namespace and name, as in "deployments.apps ns/name". What is
// not there, as in a list, is left out.
func (k Key) String() string {
	return strings.TrimRight(k.Resource.String()+" "+strings.Trim(k.Namespace+"/"+k.Name, "/"), " ")
}

// Effect is what a request did to the store.
type Effect string

const (
	// Read asked only. A watch is one request.
	Read Effect = "read"
	// Stored made a new version of the object.
	Stored Effect = "stored"
	// Deleted took the object away: a deletion, or a write that removed the last
	// finalizer of an object that was on its way out.
	Deleted Effect = "deleted"
	// Unchanged was accepted and changed nothing: what was asked for is there already.
	Unchanged Effect = "unchanged"
	// Refused was answered with a 4xx code, or with none that is known.
	Refused Effect = "refused"
	// Unknown was answered with a 5xx code, as a request that timed out is: it may
	// have been stored all the same.
	Unknown Effect = "unknown"
	// Dry was never to be stored: dry runs, reviews, tokens.
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
	Span
	Received time.Time `json:"received"`
	Answered time.Time `json:"answered"`
	Code     int       `json:"code"`
	// Reason is the API's short word for a refusal, such as Conflict.
	Reason string `json:"reason,omitempty"`
	// Forbidden says that authorization refused it, not admission.
	Forbidden bool   `json:"forbidden,omitempty"`
	Effect    Effect `json:"effect"`

	// Apply is a server-side apply, Force one that takes fields from others.
	Apply bool `json:"apply,omitempty"`
	Force bool `json:"force,omitempty"`
	// NeedsUID and NeedsVersion are the preconditions it carried.
	NeedsUID     types.UID `json:"needsUID,omitempty"`
	NeedsVersion string    `json:"needsVersion,omitempty"`
	// Made says that the object did not exist before.
	Made bool `json:"made,omitempty"`
	// Body says that the log has what was asked for; without it nothing is known
	// of preconditions.
	Body bool `json:"body,omitempty"`
}

// Write reports whether it was meant to change something.
func (r Request) Write() bool { return r.Effect != Read && r.Effect != Dry }

// Done reports whether it did change something.
func (r Request) Done() bool { return r.Effect == Stored || r.Effect == Deleted }

// String says who asked for what, and when that was stored.
func (r Request) String() string {
	who := r.User
	if r.Replica != "" {
		who = "replica " + r.Replica
	}
	what := r.Key.String()
	if r.Subresource != "" {
		what += " (" + r.Subresource + ")"
	}
	when := r.Span.String()
	if _, exact := r.Exact(); exact {
		when = "at " + when
	}
	return fmt.Sprintf("%s of %s by %s %s, answered %d", r.Verb, what, who, when, r.Code)
}

// Event is what a replica wrote to the object's events, once for each request.
type Event struct {
	User    string `json:"user"`
	Replica string `json:"replica,omitempty"`
	// Regarding is the UID of the object that it is about.
	Regarding types.UID `json:"regarding"`
	Type      string    `json:"type"`
	Reason    string    `json:"reason"`
	Note      string    `json:"note,omitempty"`
	// First says that it is a new one, not one more of a series.
	First bool `json:"first,omitempty"`
	Span
	At time.Time `json:"at"`
}

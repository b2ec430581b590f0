// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
)

// decision is the annotation with the authorizer's decision.
const decision = "authorization.k8s.io/decision"

// FromAudit builds a history from the events of an audit log: the requests, the versions of objects
// in the answers, and Kubernetes events. The audit events may be in any order. They must include
// the whole log from the beginning of the time of interest. Resource versions must grow over all
// resources (one etcd), and all times must be those of one API server's clock.
//
// The log contains no answers for resources that its policy records without bodies, and the
// deletion of a collection does not name the objects. For those, and for the versions of deletions,
// merge the history with that of a Watcher.
func FromAudit(events []auditv1.Event) (*history.History, error) {
	b := builder{clock: newVersions(events), history: &history.History{Recorded: []history.Source{history.Audit}}}
	for _, e := range once(events) {
		if err := b.add(e); err != nil {
			return nil, err
		}
	}
	b.history.Sort()
	b.attribute()
	b.end()
	b.history.Sort()
	return b.history, nil
}

// once picks each request's last stage. A watch that is still open has only its first.
func once(events []auditv1.Event) []auditv1.Event {
	best := map[types.UID]int{}
	var picked []auditv1.Event
	for _, e := range events {
		if e.ObjectRef == nil || e.Stage == auditv1.StageRequestReceived {
			continue
		}
		i, known := best[e.AuditID]
		switch {
		case !known:
			best[e.AuditID] = len(picked)
			picked = append(picked, e)
		case e.Stage != auditv1.StageResponseStarted:
			picked[i] = e
		}
	}
	return slices.DeleteFunc(picked, func(e auditv1.Event) bool {
		return e.Stage == auditv1.StageResponseStarted && e.Verb != "watch"
	})
}

type builder struct {
	clock   *versions
	history *history.History
}

func (b *builder) add(e auditv1.Event) error {
	r := requestOf(e)
	object, err := objectOf(e)
	if err != nil {
		return err
	}
	r.RevisionRange, r.Effect = b.effectOf(e)
	r.Made = r.Effect == history.Stored && r.Code == http.StatusCreated && whole(r.Subresource)
	if object != nil && whole(r.Subresource) {
		r.UID, r.Name = object.GetUID(), object.GetName()
	}
	b.history.Requests = append(b.history.Requests, r)
	switch {
	case object == nil || r.Effect != history.Stored && r.Effect != history.Deleted:
	case r.Resource.Resource == "events":
		b.history.Events = append(b.history.Events, eventOf(r, object))
	case r.Effect == history.Stored && whole(r.Subresource):
		b.history.Versions = append(b.history.Versions, history.Version{
			Key: r.Key, UID: r.UID, RevisionRange: r.RevisionRange, At: r.Answered, Object: object,
		})
	}
	return nil
}

// effectOf returns the effect of a request and its place in the order.
func (b *builder) effectOf(e auditv1.Event) (history.RevisionRange, history.Effect) {
	writes := isWrite(e)
	switch {
	case !writes && slices.Contains([]string{"get", "list", "watch"}, e.Verb):
		return b.clock.within(e), history.Read
	case !writes, e.ObjectRef.Subresource == "token":
		return b.clock.within(e), history.Dry
	case Succeeded(e):
		return b.clock.stored(e)
	case e.ResponseStatus == nil || e.ResponseStatus.Code >= 500:
		return b.clock.within(e), history.Unknown
	}
	return b.clock.within(e), history.Refused
}

// whole reports whether the answers of a subresource are the object itself.
func whole(subresource string) bool {
	return slices.Contains([]string{"", "status", "finalize", "approval"}, subresource)
}

func keyOf(e auditv1.Event) history.Key {
	key := history.Key{
		Resource:  history.Resource{Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource},
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
	}
	// The log puts a namespace in itself. No object does.
	if key.Resource == (history.Resource{Resource: "namespaces"}) {
		key.Namespace = ""
	}
	return key
}

// partial is the kind of answers to clients that request metadata only, such as the garbage
// collector.
const partial = "PartialObjectMetadata"

// objectOf is the object in the answer; nil if there is none, as in a Status, a
// list, or a log without answers.
func objectOf(e auditv1.Event) (*unstructured.Unstructured, error) {
	if _, ok := versionOf(e); !ok {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(e.ResponseObject.Raw); err != nil {
		return nil, fmt.Errorf("decoding the answer of audit event %s: %w", e.AuditID, err)
	}
	if object.IsList() || object.GetKind() == partial {
		return nil, nil
	}
	return object, nil
}

func requestOf(e auditv1.Event) history.Request {
	r := history.Request{
		ID: string(e.AuditID), User: e.User.Username, Replica: PodOf(e), Agent: e.UserAgent,
		Verb: e.Verb, Key: keyOf(e), Subresource: e.ObjectRef.Subresource, UID: e.ObjectRef.UID,
		Received: e.RequestReceivedTimestamp.Time, Answered: e.StageTimestamp.Time,
		Forbidden: e.Annotations[decision] == "forbid",
	}
	if e.ImpersonatedUser != nil {
		r.User, r.Replica = e.ImpersonatedUser.Username, ""
	}
	if e.ResponseStatus != nil {
		r.Code, r.Reason = int(e.ResponseStatus.Code), string(e.ResponseStatus.Reason)
	}
	if u, err := url.Parse(e.RequestURI); err == nil {
		r.Force = u.Query().Get("force") == "true"
	}
	readPreconditions(e, &r)
	// A Status names its object, and so does an answer with metadata only.
	switch a := answerOf(e); {
	case a.Details.UID != "":
		r.UID = a.Details.UID
	case a.Kind == partial:
		r.UID = a.Metadata.UID
	}
	return r
}

func readPreconditions(e auditv1.Event, r *history.Request) {
	r.Body = e.Level == auditv1.LevelRequest || e.Level == auditv1.LevelRequestResponse
	if e.RequestObject == nil {
		return
	}
	r.Body = true
	var body struct {
		APIVersion    string                `json:"apiVersion"`
		Preconditions *metav1.Preconditions `json:"preconditions"`
		Metadata      struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(e.RequestObject.Raw, &body) != nil {
		compares(e.RequestObject.Raw, r)
		return
	}
	r.NeedsUID, r.NeedsVersion = body.Metadata.UID, body.Metadata.ResourceVersion
	// An applied configuration has an apiVersion, which a merge patch need not have. Only an apply
	// takes "force".
	r.Apply = e.Verb == "patch" && body.APIVersion != "" && strings.Contains(e.RequestURI, "fieldManager=")
	if body.Preconditions == nil || e.Verb != "delete" {
		return
	}
	if body.Preconditions.UID != nil {
		r.NeedsUID = *body.Preconditions.UID
	}
	if body.Preconditions.ResourceVersion != nil {
		r.NeedsVersion = *body.Preconditions.ResourceVersion
	}
}

// compares reads the preconditions from the comparisons of a JSON patch, which is a list.
func compares(body []byte, r *history.Request) {
	var operations []struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(body, &operations) != nil {
		return
	}
	for _, o := range operations {
		var value string
		if o.Op != "test" || json.Unmarshal(o.Value, &value) != nil {
			continue
		}
		switch o.Path {
		case "/metadata/uid":
			r.NeedsUID = types.UID(value)
		case "/metadata/resourceVersion":
			r.NeedsVersion = value
		}
	}
}

// attribute finds versions that two requests seem to have stored: one changed
// nothing while the other was at work, and the log does not show which.
func (b *builder) attribute() {
	claims := map[history.RevisionRange][]int{}
	for i, r := range b.history.Requests {
		if _, exact := r.Exact(); exact && r.Effect == history.Stored {
			claims[r.RevisionRange] = append(claims[r.RevisionRange], i)
		}
	}
	for _, who := range claims {
		if len(who) == 1 {
			continue
		}
		for _, i := range who {
			r := &b.history.Requests[i]
			// What made the object has changed something.
			if !r.Made {
				r.Effect = history.Unknown
			}
		}
	}
	b.history.Versions = slices.CompactFunc(b.history.Versions, func(a, b history.Version) bool {
		return a.UID == b.UID && a.RevisionRange == b.RevisionRange
	})
}

// end notes the ends of objects. Where the answer does not name the object, it is
// the last one known under its name.
func (b *builder) end() {
	known := map[history.Key][]history.Version{}
	for _, v := range b.history.Versions {
		known[v.Key] = append(known[v.Key], v)
	}
	gone := map[types.UID]bool{}
	for i := range b.history.Requests {
		r := &b.history.Requests[i]
		if r.Effect != history.Deleted || r.Name == "" {
			continue
		}
		if r.UID == "" {
			r.UID = r.NeedsUID
		}
		var last *history.Version
		for _, v := range known[r.Key] {
			if v.Before(r.RevisionRange) && (r.UID == "" || r.UID == v.UID) {
				last = &v
			}
		}
		end := history.Version{Key: r.Key, UID: r.UID, RevisionRange: r.RevisionRange, At: r.Answered, Gone: true}
		if last != nil {
			end.UID, end.Object, r.UID = last.UID, last.Object, last.UID
		}
		if end.UID == "" || gone[end.UID] {
			continue
		}
		gone[end.UID] = true
		b.history.Versions = append(b.history.Versions, end)
	}
}

// eventOf reads an Event of either group.
func eventOf(r history.Request, object *unstructured.Unstructured) history.Event {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, fields...)
		return value
	}
	e := history.Event{
		User: r.User, Replica: r.Replica, Regarding: types.UID(text("regarding", "uid")), Type: text("type"),
		Reason: text("reason"),
		Note:   text("note"), First: r.Made, RevisionRange: r.RevisionRange, At: r.Answered,
	}
	if r.Group == "" {
		e.Regarding, e.Note = types.UID(text("involvedObject", "uid")), text("message")
	}
	// The API server has checked the time.
	e.Observed, _ = time.Parse(time.RFC3339, text("series", "lastObservedTime"))
	return e
}

// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// podNameKey is the audit attribute with the Pod that a token belongs to.
const podNameKey = "authentication.kubernetes.io/pod-name"

// Filter reports whether an audit event is selected.
type Filter func(auditv1.Event) bool

// Select returns the events that satisfy every match, in the order of the log.
func Select(events []auditv1.Event, matches ...Filter) []auditv1.Event {
	var selected []auditv1.Event
	for _, event := range events {
		if !slices.ContainsFunc(matches, func(m Filter) bool { return !m(event) }) {
			selected = append(selected, event)
		}
	}
	return selected
}

// User matches requests that the API server authorized as this user. With impersonation, that is
// the impersonated user.
func User(name string) Filter {
	return func(e auditv1.Event) bool {
		if e.ImpersonatedUser != nil {
			return e.ImpersonatedUser.Username == name
		}
		return e.User.Username == name
	}
}

// Verb matches requests with one of these verbs.
func Verb(verbs ...string) Filter {
	return func(e auditv1.Event) bool { return slices.Contains(verbs, e.Verb) }
}

// Resource matches requests for a resource and its subresources. The empty group is the core group.
func Resource(group, resource string) Filter {
	return func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.APIGroup == group && e.ObjectRef.Resource == resource
	}
}

// InNamespace matches requests for objects in a namespace.
func InNamespace(namespace string) Filter {
	return func(e auditv1.Event) bool { return e.ObjectRef != nil && e.ObjectRef.Namespace == namespace }
}

// PodOf returns the name of the Pod to which the token of the request is bound, or "" if there is
// none.
func PodOf(e auditv1.Event) string {
	if names := e.User.Extra[podNameKey]; len(names) == 1 {
		return names[0]
	}
	return ""
}

// Named matches requests for objects of this name.
func Named(name string) Filter {
	return func(e auditv1.Event) bool { return e.ObjectRef != nil && e.ObjectRef.Name == name }
}

// Since matches requests that the API server received at this time or later.
func Since(t time.Time) Filter {
	return func(e auditv1.Event) bool { return !e.RequestReceivedTimestamp.Time.Before(t) }
}

// Succeeded matches requests answered with a 2xx code.
func Succeeded(e auditv1.Event) bool {
	return e.ResponseStatus != nil && e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300
}

// Conflicted matches requests that were refused because the object was not in the required state:
// it had another resourceVersion or UID, or the test operation of a JSON patch found another value.
// To such a patch the API server answers 422, without a cause.
func Conflicted(e auditv1.Event) bool {
	switch s := e.ResponseStatus; {
	case s == nil:
		return false
	case s.Code == http.StatusUnprocessableEntity:
		return e.Verb == "patch" && (s.Details == nil || len(s.Details.Causes) == 0)
	default:
		return s.Code == http.StatusConflict
	}
}

// Not matches the events that m does not match.
func Not(m Filter) Filter { return func(e auditv1.Event) bool { return !m(e) } }

// Writes returns the user's writes that satisfy all filters in also, once each, including refused
// writes. Dry runs and reviews of tokens and access do not count.
func Writes(events []auditv1.Event, user string, also ...Filter) []auditv1.Event {
	return Select(Select(events, User(user), isWrite), also...)
}

func isWrite(e auditv1.Event) bool {
	switch e.Stage {
	case auditv1.StageResponseComplete, auditv1.StagePanic: // the last stage of a request
	default:
		return false
	}
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return !isReview(e) && !isDryRun(e)
	}
	return false
}

func isReview(e auditv1.Event) bool {
	return e.ObjectRef != nil &&
		(e.ObjectRef.APIGroup == "authentication.k8s.io" || e.ObjectRef.APIGroup == "authorization.k8s.io")
}

func isDryRun(e auditv1.Event) bool {
	u, err := url.Parse(e.RequestURI)
	return err == nil && u.Query().Has("dryRun")
}

// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/integration/internal/operator"
)

// tally counts events of the audit log. exact has the counts that are equal in every run, timed
// those that depend on the time of a watch event. effects are by audit ID.
func tally(events []auditv1.Event, effects map[string]history.Effect) (exact, timed map[string]int) {
	exact, timed = map[string]int{}, map[string]int{}
	for _, e := range events {
		key, ok := keyOf(e)
		switch {
		case !ok:
		case record.Conflicted(e):
			timed["conflict "+verbOf(e)+" "+resourceOf(e)]++
		case isConfirmation(e):
			timed[key]++
		default:
			exact[key]++
			if effects[string(e.AuditID)] == history.Unchanged {
				exact["no-op "+verbOf(e)+" "+resourceOf(e)]++
			}
		}
	}
	return exact, timed
}

// keyOf returns the key under which an event is counted. ok is false if it is not a controller's request.
func keyOf(e auditv1.Event) (key string, ok bool) {
	if e.ObjectRef == nil || !record.User(operator.User)(e) || isUpkeep(e) {
		return "", false
	}
	switch verb := verbOf(e); {
	case verb == "watch":
		// Counted at its start, because the server decides when it ends.
		return "watch " + resourceOf(e), e.Stage == auditv1.StageResponseStarted
	case e.Stage != auditv1.StageResponseComplete && e.Stage != auditv1.StagePanic:
		return "", false
	case verb == "get" || verb == "list":
		return "read " + verb + " " + resourceOf(e), true
	case e.ObjectRef.Resource == "events" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusGatewayTimeout:
		return "", false // the event of a process that ended before the answer
	case e.ResponseStatus != nil && e.ResponseStatus.Code >= 400 && !record.Conflicted(e):
		return fmt.Sprintf("refused %d %s %s", e.ResponseStatus.Code, verb, resourceOf(e)), true
	case e.ObjectRef.Resource == "events":
		return eventKey(e)
	default:
		return "write " + verb + " " + resourceOf(e), true
	}
}

// isUpkeep reports whether the request is due to a timer of the operator, not to an object.
func isUpkeep(e auditv1.Event) bool {
	switch o := e.ObjectRef; {
	case o.Resource == "leases":
		return true
	case o.Name == "leasehold-fence-check":
		// A standby tries the fence until it is denied.
		return true
	case o.Resource == "pods" && o.Namespace == operator.Namespace:
		// A standby watches the leader's Pod.
		return true
	case o.APIGroup == "authentication.k8s.io" || o.APIGroup == "authorization.k8s.io":
		// Reviews for the webhooks and the metrics are cached for some time.
		return true
	case o.APIGroup == "admissionregistration.k8s.io", o.Resource == "secrets" && o.Namespace == operator.Namespace:
		// The webhooks' certificate.
		return true
	}
	return false
}

// isConfirmation reports whether the request reads a child of a MarkdownView that the cache does
// not have: the operator reads it live before it decides.
func isConfirmation(e auditv1.Event) bool {
	switch e.ObjectRef.Resource {
	case "configmaps", "deployments", "services":
		return e.Verb == "get"
	}
	return false
}

// verbOf returns the verb; an apply that has created an object is a create.
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

// eventKey returns the object's kind and the reason. Events about the Lease are not counted.
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

// answered is an answered request of the operator.
func answered(verb, group, resource string, code int32, with ...func(*auditv1.Event)) auditv1.Event {
	e := auditv1.Event{
		AuditID: types.UID(fmt.Sprint(verb, resource, code)), Stage: auditv1.StageResponseComplete, Verb: verb,
		ObjectRef:      &auditv1.ObjectReference{APIGroup: group, Resource: resource},
		ResponseStatus: &metav1.Status{Code: code},
	}
	e.User.Username = operator.User
	for _, f := range with {
		f(&e)
	}
	return e
}

func TestKeyOf(t *testing.T) {
	begun := func(e *auditv1.Event) { e.Stage = auditv1.StageResponseStarted }
	status := func(e *auditv1.Event) { e.ObjectRef.Subresource = "status" }
	in := func(namespace string) func(*auditv1.Event) {
		return func(e *auditv1.Event) { e.ObjectRef.Namespace = namespace }
	}
	administrator := func(e *auditv1.Event) { e.User.Username = "system:admin" }
	about := func(kind, reason string) func(*auditv1.Event) {
		return func(e *auditv1.Event) {
			e.ResponseObject = &runtime.Unknown{Raw: fmt.Appendf(nil, `{"regarding":{"kind":%q},"reason":%q}`, kind, reason)}
		}
	}
	const rbac, ours, events = "rbac.authorization.k8s.io", "leasehold.dev", "events.k8s.io"
	for want, all := range map[string][]auditv1.Event{
		"write create namespaces":    {answered("patch", "", "namespaces", 201)},
		"write patch rolebindings":   {answered("patch", rbac, "rolebindings", 200)},
		"write patch tenants/status": {answered("patch", ours, "tenants", 200, status)},
		"refused 404 patch tenants":  {answered("patch", ours, "tenants", 404)},
		"refused 403 patch tenants":  {answered("patch", ours, "tenants", 403)},
		"read get secrets": {answered("get", "", "secrets", 200, in("team")),
			answered("get", "", "secrets", 404, in("team"))},
		"read list pods":             {answered("list", "", "pods", 200, in("team"))},
		"watch tenants":              {answered("watch", ours, "tenants", 200, begun)},
		"event Tenant Updated":       {answered("create", events, "events", 201, about("Tenant", "Updated"))},
		"event Tenant Updated again": {answered("patch", events, "events", 200, about("Tenant", "Updated"))},
		"write create events":        {answered("create", events, "events", 201)},
		"": {
			answered("watch", ours, "tenants", 200),
			answered("patch", ours, "tenants", 200, begun),
			answered("patch", ours, "tenants", 200, administrator),
			answered("update", "coordination.k8s.io", "leases", 200),
			answered("list", "", "pods", 200, in(operator.Namespace)),
			answered("create", events, "events", 201, about("Lease", "LeaderElection")),
			answered("create", events, "events", 504),
			answered("create", "authorization.k8s.io", "subjectaccessreviews", 201),
			answered("get", "", "secrets", 200, in(operator.Namespace)),
			answered("update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", 200),
		},
	} {
		for _, e := range all {
			key, ok := keyOf(e)
			if ok != (want != "") || ok && key != want {
				t.Errorf("%s %s: counted %v as %q, want %q", e.Verb, resourceOf(e), ok, key, want)
			}
		}
	}
}

func TestTally(t *testing.T) {
	g := NewWithT(t)
	idle := answered("patch", "", "namespaces", 200)
	exact, timed := tally([]auditv1.Event{
		answered("patch", "", "namespaces", 201), answered("patch", "", "namespaces", 201), idle,
		answered("patch", "leasehold.dev", "tenants", 409), answered("patch", "leasehold.dev", "tenants", 422), {Verb: "get"},
		answered("get", "", "services", 404), answered("get", "", "namespaces", 404),
	}, map[string]history.Effect{string(idle.AuditID): history.Unchanged})
	g.Expect(exact).To(Equal(map[string]int{"write create namespaces": 2, "write patch namespaces": 1,
		"no-op patch namespaces": 1, "read get namespaces": 1}))
	g.Expect(timed).To(Equal(map[string]int{"conflict patch tenants": 2, "read get services": 1}))
}

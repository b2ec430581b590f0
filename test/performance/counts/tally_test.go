package counts

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/performance/stage"
)

// asked is a request of the operator's that was answered.
func asked(verb, group, resource string, code int32, with ...func(*auditv1.Event)) auditv1.Event {
	e := auditv1.Event{
		AuditID: types.UID(fmt.Sprint(verb, group, resource, code)), Stage: auditv1.StageResponseComplete, Verb: verb,
		ObjectRef:      &auditv1.ObjectReference{APIGroup: group, Resource: resource},
		ResponseStatus: &metav1.Status{Code: code},
	}
	e.User.Username = stage.User
	for _, f := range with {
		f(&e)
	}
	return e
}

func answer(text string) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.ResponseObject = &runtime.Unknown{Raw: []byte(text)} }
}

func TestWhatARequestIsCountedAs(t *testing.T) {
	begun := func(e *auditv1.Event) { e.Stage = auditv1.StageResponseStarted }
	status := func(e *auditv1.Event) { e.ObjectRef.Subresource = "status" }
	in := func(namespace string) func(*auditv1.Event) {
		return func(e *auditv1.Event) { e.ObjectRef.Namespace = namespace }
	}
	stranger := func(e *auditv1.Event) { e.User.Username = "system:admin" }
	about := func(kind, reason string) func(*auditv1.Event) {
		return answer(fmt.Sprintf(`{"regarding":{"kind":%q},"reason":%q}`, kind, reason))
	}
	const rbac, ours, events = "rbac.authorization.k8s.io", "leasehold.dev", "events.k8s.io"
	for name, tc := range map[string]struct {
		event auditv1.Event
		want  string // "" is not counted
	}{
		"an apply that creates":         {asked("patch", "", "namespaces", 201), "write create namespaces"},
		"an apply that changes":         {asked("patch", rbac, "rolebindings", 200), "write patch rolebindings"},
		"a status":                      {asked("patch", ours, "tenants", 200, status), "write patch tenants/status"},
		"a deletion":                    {asked("delete", rbac, "clusterroles", 200), "write delete clusterroles"},
		"a refusal":                     {asked("patch", ours, "tenants", 404), "refused 404 patch tenants"},
		"a live read":                   {asked("get", "", "secrets", 200, in("team")), "read get secrets"},
		"a live read of nothing":        {asked("get", "", "namespaces", 404), "read get namespaces"},
		"a live list":                   {asked("list", ours, "tenants", 200), "read list tenants"},
		"a watch that begins":           {asked("watch", ours, "tenants", 200, begun), "watch tenants"},
		"a watch that ends":             {asked("watch", ours, "tenants", 200), ""},
		"a request that is under way":   {asked("patch", ours, "tenants", 200, begun), ""},
		"an event":                      {asked("create", events, "events", 201, about("Tenant", "Updated")), "event Tenant Updated"},
		"one more of a series":          {asked("patch", events, "events", 200, about("Tenant", "Updated")), "event Tenant Updated again"},
		"an event that nobody can read": {asked("create", events, "events", 201), "write create events"},
		"somebody else's request":       {asked("patch", ours, "tenants", 200, stranger), ""},
		"a renewal of the Lease":        {asked("update", "coordination.k8s.io", "leases", 200), ""},
		"the leader's Pod":              {asked("list", "", "pods", 200, in(stage.Namespace)), ""},
		"another Pod":                   {asked("list", "", "pods", 200, in("team")), "read list pods"},
		"what the election says":        {asked("create", events, "events", 201, about("Lease", "LeaderElection")), ""},
		"a review":                      {asked("create", "authorization.k8s.io", "subjectaccessreviews", 201), ""},
		"the webhooks' certificate":     {asked("get", "", "secrets", 200, in(stage.Namespace)), ""},
		"the webhooks' CA bundle":       {asked("update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", 200), ""},
		"which addresses are near":      {asked("list", "networking.k8s.io", "servicecidrs", 200), ""},
	} {
		key, counted := keyOf(tc.event)
		if !counted {
			key = ""
		}
		if key != tc.want || counted != (tc.want != "") {
			t.Errorf("%s: counted %v as %q, want %q", name, counted, key, tc.want)
		}
	}
}

func TestTally(t *testing.T) {
	g := NewWithT(t)
	idle := asked("patch", "", "namespaces", 200)
	l := &ledger{effects: map[string]history.Effect{string(idle.AuditID): history.Unchanged}}
	counted, timed := l.tally([]auditv1.Event{
		asked("patch", "", "namespaces", 201), asked("patch", "", "namespaces", 201), idle,
		asked("patch", "leasehold.dev", "tenants", 409), asked("patch", "leasehold.dev", "tenants", 422), {Verb: "get"},
	})
	g.Expect(counted).To(Equal(map[string]int{"write create namespaces": 2, "write patch namespaces": 1, "no-op patch namespaces": 1}))
	g.Expect(timed).To(Equal(map[string]int{"conflict patch tenants": 2}))
}

// A write without effect is told by the version in its answer, which is not a new one.
func TestTheLedgerKnowsWhatChangedNothing(t *testing.T) {
	g := NewWithT(t)
	at := func(second int) func(*auditv1.Event) {
		return func(e *auditv1.Event) {
			e.AuditID = types.UID(fmt.Sprint(second))
			e.RequestReceivedTimestamp = metav1.MicroTime{Time: metav1.Unix(int64(second), 0).Time}
			e.StageTimestamp = metav1.MicroTime{Time: metav1.Unix(int64(second), 1000).Time}
		}
	}
	version := func(v int) func(*auditv1.Event) {
		return answer(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","resourceVersion":"%d"}}`, v))
	}
	events := []auditv1.Event{
		asked("patch", "", "namespaces", 201, at(1), version(7)), asked("patch", "", "namespaces", 200, at(2), version(8)),
		asked("patch", "", "namespaces", 200, at(3), version(8)),
	}
	l, err := newLedger(events)
	g.Expect(err).NotTo(HaveOccurred())
	counted, _ := l.tally(events)
	g.Expect(counted).To(Equal(map[string]int{"write create namespaces": 1, "write patch namespaces": 2, "no-op patch namespaces": 1}))
}

package scale

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/performance/environment"
)

const uid = "11111111-2222-4333-8444-555555555555"

func request(second int64, verb, uri, group, resource, body string) auditv1.Event {
	e := auditv1.Event{
		Stage: auditv1.StageResponseComplete, Verb: verb, RequestURI: uri,
		ObjectRef:      &auditv1.ObjectReference{APIGroup: group, Resource: resource},
		ResponseStatus: &metav1.Status{Code: 200},
	}
	e.User.Username = environment.User
	e.RequestReceivedTimestamp.Time = metav1.Unix(second, 0).Time
	if body != "" {
		e.RequestObject = &runtime.Unknown{Raw: []byte(body)}
	}
	return e
}

func TestShapeIsWhatWasWrittenInOrderForAnother(t *testing.T) {
	stranger := request(0, "create", "/x", "", "namespaces", `{}`)
	stranger.User.Username = "another"
	s, err := shapeOf([]auditv1.Event{
		stranger,
		request(3, "create", "/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io", "events",
			`{"metadata":{"name":"shape-00000.1"},"regarding":{"uid":"`+uid+`"}}`),
		request(2, "patch", "/api/v1/namespaces/shape-00000-dev?fieldManager=leasehold&force=true", "", "namespaces",
			`{"metadata":{"name":"shape-00000-dev","resourceVersion":"1"}}`),
		request(1, "patch", "/apis/leasehold.dev/v1beta1/tenants/shape-00000?fieldManager=leasehold", "leasehold.dev", "tenants",
			`{"metadata":{"finalizers":["f"],"resourceVersion":"77"}}`),
		request(6, "patch", "/apis/leasehold.dev/v1beta1/tenants/shape-00000/status?fieldManager=leasehold", "leasehold.dev", "tenants",
			`[{"op":"test","path":"/metadata/uid","value":"`+uid+`"}]`),
		request(4, "get", "/api/v1/namespaces/x", "", "namespaces", ""),
		request(5, "update", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "coordination.k8s.io", "leases", ""),
	}, uid)
	if err != nil {
		t.Fatal(err)
	}
	var got []write
	for _, w := range s {
		got = append(got, w.of("prior-00007", "other"))
	}
	protobuf := "application/vnd.kubernetes.protobuf,application/json"
	want := []write{
		{
			method: "PATCH", path: "/apis/leasehold.dev/v1beta1/tenants/prior-00007?fieldManager=leasehold",
			contentType: "application/merge-patch+json", accept: "application/json", body: `{"metadata":{"finalizers":["f"]}}`,
		},
		{
			method: "PATCH", path: "/api/v1/namespaces/prior-00007-dev?fieldManager=leasehold&force=true",
			contentType: "application/apply-patch+yaml", accept: protobuf, body: `{"metadata":{"name":"prior-00007-dev","resourceVersion":"1"}}`,
		},
		{
			method: "POST", path: "/apis/events.k8s.io/v1/namespaces/default/events", contentType: "application/json",
			accept: protobuf, body: `{"metadata":{"name":"prior-00007.1"},"regarding":{"uid":"other"}}`, event: true,
		},
		{
			method: "PATCH", path: "/apis/leasehold.dev/v1beta1/tenants/prior-00007/status?fieldManager=leasehold",
			contentType: "application/json-patch+json", accept: "application/json", body: `[{"op":"test","path":"/metadata/uid","value":"other"}]`,
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(write{})); diff != "" {
		t.Errorf("shape (-want +got):\n%s", diff)
	}
}

func TestShapeSaysWhatItCannotBeTakenFrom(t *testing.T) {
	refused := request(1, "patch", "/x", "", "namespaces", `{}`)
	refused.ResponseStatus.Code = 409
	for reason, events := range map[string][]auditv1.Event{
		"nothing was written":  nil,
		"it was refused":       {refused},
		"there is no body":     {request(1, "create", "/x", "", "namespaces", "")},
		"the body is no JSON":  {request(1, "create", "/x", "", "namespaces", "[")},
		"something is deleted": {request(1, "delete", "/x", "", "namespaces", `{}`)},
	} {
		if s, err := shapeOf(events, uid); err == nil {
			t.Errorf("%s: got %v, want an error", reason, s)
		}
	}
}

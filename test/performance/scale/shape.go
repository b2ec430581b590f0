package scale

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/performance/environment"
)

// The name of the Tenant of which the shape is taken, and its UID in the shape.
const (
	modelName = "shape-00000"
	modelUID  = "00000000-0000-4000-8000-000000000000"
)

// shape is what the operator writes for one Tenant, in this order, as it can be
// written again for one of another name.
type shape []write

// write is one request of it.
type write struct {
	method, path, contentType, accept, body string
	// event: the operator sends it beside its other work and waits for no answer.
	event bool
}

// shapeOf takes the shape from the audit log of what was written for the Tenant
// with modelName and this UID; the log has to have the bodies.
func shapeOf(events []auditv1.Event, uid types.UID) (shape, error) {
	writes := record.Writes(events, environment.User, record.Not(record.Resource("coordination.k8s.io", "leases")))
	slices.SortStableFunc(writes, func(a, b auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	var s shape
	for _, e := range writes {
		w, err := writeOf(e, uid)
		if err != nil {
			return nil, fmt.Errorf("learning from the audit log what %s %s was: %w", e.Verb, e.RequestURI, err)
		}
		s = append(s, w)
	}
	if len(s) == 0 {
		return nil, errors.New("the audit log has no write of the operator's")
	}
	return s, nil
}

func writeOf(e auditv1.Event, uid types.UID) (write, error) {
	if !record.Succeeded(e) {
		return write{}, fmt.Errorf("it was refused: %s", e.ResponseStatus)
	}
	if e.RequestObject == nil {
		return write{}, errors.New("its body was not recorded")
	}
	uri, err := url.Parse(e.RequestURI)
	if err != nil {
		return write{}, fmt.Errorf("parsing the URI: %w", err)
	}
	w := write{path: e.RequestURI, contentType: "application/json", accept: "application/vnd.kubernetes.protobuf,application/json"}
	if e.ObjectRef != nil {
		w.event = e.ObjectRef.Resource == "events"
		if e.ObjectRef.APIGroup == v1beta1.GroupVersion.Group {
			w.accept = "application/json"
		}
	}
	switch {
	case e.Verb == "create":
		w.method = http.MethodPost
	case e.Verb == "patch" && uri.Query().Has("force"):
		w.method, w.contentType = http.MethodPatch, string(types.ApplyPatchType)
	case e.Verb == "patch" && bytes.HasPrefix(e.RequestObject.Raw, []byte("[")):
		// It compares the status that the write before it has stored, which is the same again.
		w.method, w.contentType = http.MethodPatch, string(types.JSONPatchType)
		w.body = strings.ReplaceAll(string(e.RequestObject.Raw), string(uid), modelUID)
		return w, nil
	case e.Verb == "patch":
		w.method, w.contentType = http.MethodPatch, string(types.MergePatchType)
	default:
		return write{}, errors.New("no request of this kind is known of the operator when it makes something")
	}
	body, err := unpinned(e.RequestObject.Raw)
	if err != nil {
		return write{}, err
	}
	w.body = strings.ReplaceAll(string(body), string(uid), modelUID)
	return w, nil
}

// unpinned is a body without the version of the object that it was written for.
// The version that says "there is no such object" stays.
func unpinned(body []byte) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("decoding the body: %w", err)
	}
	if metadata, ok := object["metadata"].(map[string]any); ok && metadata["resourceVersion"] != "1" {
		delete(metadata, "resourceVersion")
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the body: %w", err)
	}
	return body, nil
}

// of is the same for another Tenant.
func (w write) of(name string, uid types.UID) write {
	replace := strings.NewReplacer(modelName, name, modelUID, string(uid)).Replace
	w.path, w.body = replace(w.path), replace(w.body)
	return w
}

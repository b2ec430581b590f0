// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Earlier contains the objects of a resource at some time, as an API server that lags behind may
// still return them.
type Earlier struct {
	resource string
	list     unstructured.UnstructuredList
}

// Remember reads the current state of all objects of a resource, in the preferred version of its
// group.
func (a *API) Remember(resource string) *Earlier {
	a.t.Helper()
	r := schema.ParseGroupResource(resource)
	path := "/api/v1"
	if r.Group != "" {
		var group metav1.APIGroup
		body, err := a.get("/apis/" + r.Group)
		if err == nil {
			err = json.Unmarshal(body, &group)
		}
		if err != nil {
			a.t.Fatalf("remembering %s: finding its version: %v", resource, err)
		}
		path = "/apis/" + group.PreferredVersion.GroupVersion
	}
	e := &Earlier{resource: resource}
	body, err := a.get(path + "/" + r.Resource)
	if err == nil {
		err = e.list.UnmarshalJSON(body)
	}
	if err != nil {
		a.t.Fatalf("remembering %s: %v", resource, err)
	}
	return e
}

// get reads a path of the API server, past the proxy.
func (a *API) get(path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(a.ctx, http.MethodGet, a.server+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := a.direct.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return body, err
}

// RestartSeeing restarts the manager. The manager's new cache of the resource begins with the earlier state, and the
// proxy holds back the events after that state until the returned injection is healed.
//
// Kubernetes permits this. An API server that lags behind may answer a list of any version (resourceVersion=0), and
// the watch that follows may be late. Informers of client-go before 0.35 begin with such a list. Later informers
// begin with a consistent watch, and use the list after one error, which the proxy injects.
func (a *API) RestartSeeing(e *Earlier) *Injection {
	a.t.Helper()
	refusal, err := refusal(http.StatusInternalServerError, "injected")
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	consistent, lists, watches := a.match(http.MethodGet, e.resource), a.match(http.MethodGet, e.resource),
		a.match(http.MethodGet, e.resource)
	consistent.Query, consistent.To = map[string]string{"sendInitialEvents": "true"}, 1
	lists.Query, lists.To = map[string]string{"resourceVersion": "0"}, 1
	watches.Query = map[string]string{"watch": ""}
	name := a.name("the restarted manager sees earlier " + e.resource)
	var held *Injection
	a.restart(func() {
		first := a.Inject(Rule{Name: name, Match: consistent, Fault: refusal})
		list := a.Inject(Rule{Name: name, Match: lists, Fault: earlierList{e}})
		held = a.Inject(Rule{Name: name, Match: watches, Fault: Lag{}})
		held.onHeal = func(i *Injection) {
			first.Heal()
			list.Heal()
			a.remove(i)
		}
		a.leftovers = append(a.leftovers, leftover{injection: held, evidence: list})
	})
	return held
}

// earlierList answers a list with an earlier state.
type earlierList struct{ *Earlier }

func (e earlierList) act(x *exchange) {
	body, err := e.selected(x.request)
	if err != nil {
		Answer{Status: http.StatusBadRequest, Body: err.Error()}.act(x)
		return
	}
	Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body)}.act(x)
}

// selected returns the objects that a list selects, by its namespace and its labels.
func (e *Earlier) selected(r *http.Request) ([]byte, error) {
	if fields := r.URL.Query().Get("fieldSelector"); fields != "" {
		return nil, fmt.Errorf("an earlier list with the field selector %q cannot be answered", fields)
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	namespace := pathsOf(e.resource).FindStringSubmatch(r.URL.Path)[namespaceGroup]
	list := e.list
	list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(o unstructured.Unstructured) bool {
		return namespace != "" && o.GetNamespace() != namespace || !selector.Matches(labels.Set(o.GetLabels()))
	})
	return list.MarshalJSON()
}

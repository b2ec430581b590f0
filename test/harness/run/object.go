// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// object is an API object as an administrator accesses it.
type object struct {
	dynamic.ResourceInterface

	key history.Key
}

// resourceAt returns the object or, without a name, the collection of a request's path.
func (p *Prover) resourceAt(path string) (object, error) {
	asked, err := http.NewRequest(http.MethodGet, path, http.NoBody)
	if err != nil {
		return object{}, fmt.Errorf("reading the path %s: %w", path, err)
	}
	info, err := requestInfoFactory.NewRequestInfo(asked)
	if err != nil {
		return object{}, fmt.Errorf("reading the path %s: %w", path, err)
	}
	key := history.Key{Resource: history.Resource{Group: info.APIGroup, Resource: info.Resource},
		Namespace: info.Namespace, Name: info.Name}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if key.Resource == (history.Resource{Resource: namespaces.Resource}) {
		key.Namespace = "" // a namespace's path has it as the namespace too
	}
	if key.Namespace == "" {
		return object{p.dynamic.Resource(gvr), key}, nil
	}
	return object{p.dynamic.Resource(gvr).Namespace(key.Namespace), key}, nil
}

func (p *Prover) objectOf(r scenario.Ref) (object, error) {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	mapping, err := p.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return object{}, fmt.Errorf("looking for the resource of %s: %w", r, err)
	}
	key := history.Key{
		Resource:  history.Resource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource},
		Namespace: r.Namespace, Name: r.Name,
	}
	if r.Namespace == "" {
		return object{p.dynamic.Resource(mapping.Resource), key}, nil
	}
	return object{p.dynamic.Resource(mapping.Resource).Namespace(r.Namespace), key}, nil
}

// requestInfoFactory parses the paths of requests.
var requestInfoFactory = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// requestInfoOf returns the resource of a request, or nil if it has none.
func requestInfoOf(r fault.ProxiedRequest) *apirequest.RequestInfo {
	info, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: r.Method, URL: r.URL()})
	if err != nil || !info.IsResourceRequest {
		return nil
	}
	return info
}

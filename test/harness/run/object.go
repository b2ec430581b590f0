// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// keyOf returns the key of an object in a history.
func (p *Prover) keyOf(r scenario.Ref) (history.Key, error) {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	mapping, err := p.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return history.Key{}, fmt.Errorf("looking for the resource of %s: %w", r, err)
	}
	return history.Key{
		Resource:  history.Resource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource},
		Namespace: r.Namespace, Name: r.Name,
	}, nil
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

package run

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"leasehold.dev/test/harness/fault"
)

// requestInfoFactory parses the paths of requests.
var requestInfoFactory = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// requestInfoOf returns the resource of a request, or nil if it has none.
func requestInfoOf(r fault.Request) *apirequest.RequestInfo {
	info, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: r.Method, URL: r.URL()})
	if err != nil || !info.IsResourceRequest {
		return nil
	}
	return info
}

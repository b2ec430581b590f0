// SPDX-License-Identifier: Apache-2.0

package run

import (
	"net/url"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/fault"
)

// The requests with which a replica started show which of the documented behaviors makes its old state legal.
func TestTarget_LegalStart(t *testing.T) {
	request := func(query string, instead int) fault.ProxiedRequest {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return fault.ProxiedRequest{Method: "GET", Path: "/things", Query: values, Instead: instead}
	}
	stream, anyList := request("sendInitialEvents=true&watch=true", 500), request("resourceVersion=0", 200)
	late := request("resourceVersion=7&watch=true", 0)
	const old = "/things as it was before step 2"
	const needsNone = `^needs no error: the replica began with GET /things\?resourceVersion=0, ` +
		`which any version may answer \(.*#semantics-for-get-and-list\)$`
	for name, tc := range map[string]struct {
		requests     []fault.ProxiedRequest
		found, legal string
	}{
		"List":   {[]fault.ProxiedRequest{anyList, late}, old, needsNone},
		"Stream": {[]fault.ProxiedRequest{stream, anyList, late}, old, `^needs one error: .*sendInitialEvents=true.*#streaming-lists.* 500, it sent .*resourceVersion=0,`},
		"Newest": {[]fault.ProxiedRequest{stream, late}, "/things at the newest version, and then received its events late",
			"^needs no error: .*#efficient-detection-of-changes"},
		// A stream that only came late was not refused.
		"Late stream": {[]fault.ProxiedRequest{anyList, request("sendInitialEvents=true&watch=true", 0)}, old, needsNone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found, legal := Target{Method: startMethod, Path: "/things", Nth: 2}.legalStart(tc.requests)
			g.Expect(found).To(Equal(tc.found))
			g.Expect(legal).To(MatchRegexp(tc.legal))
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// The requests of an informer show the collections that it follows; other lists and watches do not.
func TestFollowedCollections(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	second := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	const streams = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	asked := func(id, at int, method, path, query string, status int) fault.ProxiedRequest {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return fault.ProxiedRequest{ID: id, Method: method, Path: path, Query: values, Status: status, Received: second(at),
			Delivered: second(at + 1)}
	}
	j := fault.Journal{
		Requests: []fault.ProxiedRequest{
			asked(1, 0, "GET", "/api/v1/pods", streams, 200), // of the process before
			asked(2, 2, "GET", "/api/v1/namespaces", streams, 200),
			asked(3, 3, "GET", "/apis/example.com/v1/things", streams, 200), // never received all
			asked(4, 4, "GET", "/api/v1/namespaces/a/configmaps", "limit=500", 200),
			asked(5, 5, "GET", "/api/v1/namespaces/a/configmaps", "watch=true&resourceVersion=7", 200),
			asked(6, 6, "GET", "/api/v1/secrets", "limit=500", 403),
			asked(7, 7, "GET", "/api/v1/secrets", "limit=500", 200),
			asked(8, 8, "GET", "/api/v1/secrets", "watch=true&resourceVersion=7", 200),
			asked(9, 9, "GET", "/api/v1/services", "", 200), // just looked
			asked(10, 10, "GET", "/api/v1/namespaces/b", "", 200),
			asked(11, 11, "POST", "/api/v1/namespaces", "", 201),
			asked(12, 12, "GET", "/healthz", "", 200),
			asked(13, 13, "GET", "/api/v1/namespaces", "watch=true&resourceVersion=9", 200),                     // continues
			asked(14, 14, "GET", "/api/v1/namespaces/a/pods", "fieldSelector=metadata.name%3Dp&limit=500", 200), // one object
			asked(15, 15, "GET", "/api/v1/namespaces/a/pods",
				"fieldSelector=metadata.name%3Dp&watch=true&resourceVersion=9", 200),
		},
		Frames: []fault.Frame{{Request: 2, Delivered: second(2)}, {Request: 2, Synced: true, Delivered: second(3)},
			{Request: 3, Delivered: second(4)}},
	}
	of := func(group, resource, path string) history.Following {
		return history.Following{Replica: "r", Resource: history.Resource{Group: group, Resource: resource}, Path: path}
	}
	at := func(f history.Following, asked, synced int) history.Following {
		f.Asked = second(asked)
		if synced > 0 {
			f.Synced = second(synced)
		}
		return f
	}
	namespaces, secrets := of("", "namespaces", "/api/v1/namespaces"), of("", "secrets", "/api/v1/secrets")
	NewWithT(t).Expect(followedCollections(j, "r", second(1))).To(Equal([]history.Following{
		at(namespaces, 2, 3), at(of("example.com", "things", "/apis/example.com/v1/things"), 3, 0),
		at(of("", "configmaps", "/api/v1/namespaces/a/configmaps"), 4, 5), at(secrets, 6, 0), at(secrets, 7, 8),
	}))

	for name, want := range map[string]bool{"namespaces": true, "configmaps": true, "services": false, "others": false} {
		kinds := []invariant.Kind{{Resource: secrets.Resource}, {Resource: history.Resource{Resource: name}}}
		NewWithT(t).Expect(listsKinds(j, kinds, time.Time{})).To(Equal(want), name)
	}
	things := invariant.Kind{Resource: history.Resource{Group: "example.com", Resource: "things"}}
	NewWithT(t).Expect(listsKinds(j, []invariant.Kind{things}, time.Time{})).To(BeFalse(), "its list has no answer")
}

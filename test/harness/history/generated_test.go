// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"leasehold.dev/test/harness/history"
)

// create adds the creation of an object to a history.
func create(h *history.History, resource history.Resource, creator, name, generateName string) {
	key := history.Key{Resource: resource, Namespace: "ns", Name: name}
	h.Requests = append(h.Requests,
		history.Request{User: creator, Verb: "create", Key: key, UID: types.UID(name), Made: true, Code: 201})
	h.Versions = append(h.Versions, thing(name, uint64(len(h.Versions)+1), func(o *unstructured.Unstructured) {
		o.SetName(name)
		o.SetGenerateName(generateName)
	}))
	h.Versions[len(h.Versions)-1].Key = key
}

func TestAliasGenerated(t *testing.T) {
	g := NewWithT(t)
	h := &history.History{Aliases: map[string]string{"pool-1-knc": "{pool}", "user-zxcvb": "{user}"}}
	made := func(user, name, generateName string) { create(h, things, user, name, generateName) }
	made("operator", "pool-1-knc-49s82", "")
	made("operator", "pool-1-knc-49s82-7ftnf", "")
	made("operator", "pool-1-knc-agent", "")            // a word
	made("operator", "user-zxcvb-7ftnf", "")            // a name of the scenario looks generated
	made("operator", "pool-1-knc-bcdfg", "pool-1-knc-") // by the API server
	made("admin", "pool-1-knc-8xlqr", "")               // of another creator
	h.Requests = append(h.Requests, history.Request{User: "operator", Verb: "create", UID: "unknown", Made: true})

	h.AliasGenerated([]string{"operator"})
	want := map[string]string{
		"pool-1-knc": "{pool}", "user-zxcvb": "{user}",
		"pool-1-knc-49s82":       "{pool}-*",
		"pool-1-knc-49s82-7ftnf": "{pool}-*-*",
		"user-zxcvb-7ftnf":       "{user}-*",
	}
	g.Expect(h.Aliases).To(BeComparableTo(want))
}

func TestHashedNames(t *testing.T) {
	g := NewWithT(t)
	parts := history.Resource{Resource: "parts"}
	run := func(pool string, names ...string) *history.History {
		h := &history.History{Aliases: map[string]string{pool: "{pool}"}}
		for _, name := range names {
			create(h, things, "operator", pool+"-"+name, "")
		}
		return h
	}
	one := run("pool-1-knc", "7945447f69-1", "2bf382bf-1", "5fbdc94955-agent", "59f674f774", "1", "agent")
	two := run("pool-2-xyz", "cc89f66f4-1", "2bf382bf-1", "59f674f774-other", "6c9f879849", "2", "other")
	create(one, parts, "operator", "part-8dd444f98", "")
	create(one, parts, "operator", "same-2bf382bf-1", "")
	create(two, parts, "admin", "part-5d8666478b", "")
	revisions := history.Resource{Resource: "revisions"}
	create(one, revisions, user.KubeControllerManager, "set-6f6f66f844", "")
	create(two, revisions, user.KubeControllerManager, "set-b9df46df9", "")
	names := history.LearnHashedNames([]string{"operator"}, []*history.History{one, two})

	judged := run("pool-3-abc", "66cd9bc9b9-1", "66cd9bc9b9-2", "2bf382bf-1", "554768c48b", "agent")
	create(judged, parts, "operator", "pool-3-abc-79c9557c8b-1", "")
	create(judged, things, "admin", "pool-3-abc-79c9557c8b-1", "")
	create(judged, revisions, user.KubeControllerManager, "set-595747bdf6", "")
	g.Expect(names.Alias(judged)).To(Equal(map[string]string{
		"{pool}-66cd9bc9b9-1": "{pool}-*-1", "{pool}-66cd9bc9b9-2": "{pool}-*-2", "{pool}-554768c48b": "{pool}-*",
		"set-595747bdf6": "set-*"}))
	g.Expect(judged.Aliases).To(Equal(map[string]string{
		"pool-3-abc": "{pool}", "pool-3-abc-66cd9bc9b9-1": "{pool}-*-1", "pool-3-abc-66cd9bc9b9-2": "{pool}-*-2",
		"pool-3-abc-554768c48b": "{pool}-*", "set-595747bdf6": "set-*"}))
}

func TestGeneratedPath(t *testing.T) {
	g := NewWithT(t)
	g.Expect(history.GeneratedPath("/things/pool-1")).To(BeNil(), "a path without a generated name")
	pattern := history.GeneratedPath("/things/pool.1-*-*/status")
	for path, want := range map[string]bool{
		"/things/pool.1-49s82-7ftnf/status":    true,
		"/things/pool.1-49s82-7ftnf/status/":   true,
		"/things/pool.1-49s82/status":          false,
		"/things/pool-1-49s82-7ftnf/status":    false,
		"/things/pool.1-49s82-agent/status":    false,
		"/things/pool.1-49s82-7ftnf":           false,
		"/things/pool.1-49s82-2bf382bf/status": true,
	} {
		g.Expect(pattern.MatchString(path)).To(Equal(want), path)
	}
}

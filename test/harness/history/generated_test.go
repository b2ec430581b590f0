package history_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

func TestAliasGenerated(t *testing.T) {
	h := &history.History{Aliases: map[string]string{"pool-1-knc": "{pool}", "user-zxcvb": "{user}"}}
	made := func(user, name, generateName string) {
		key := history.Key{Resource: things, Namespace: "ns", Name: name}
		h.Requests = append(h.Requests,
			history.Request{User: user, Verb: "create", Key: key, UID: types.UID(name), Made: true, Code: 201})
		h.Versions = append(h.Versions, thing(name, uint64(len(h.Versions)+1), func(o *unstructured.Unstructured) {
			o.SetName(name)
			o.SetGenerateName(generateName)
		}))
		h.Versions[len(h.Versions)-1].Key = key
	}
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
	if diff := cmp.Diff(want, h.Aliases); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}
}

func TestGeneratedPath(t *testing.T) {
	if pattern := history.GeneratedPath("/things/pool-1"); pattern != nil {
		t.Errorf("a path without a generated name has the pattern %s", pattern)
	}
	pattern := history.GeneratedPath("/things/pool.1-*-*/status")
	for path, want := range map[string]bool{
		"/things/pool.1-49s82-7ftnf/status":  true,
		"/things/pool.1-49s82-7ftnf/status/": true,
		"/things/pool.1-49s82/status":        false,
		"/things/pool-1-49s82-7ftnf/status":  false,
		"/things/pool.1-49s82-agent/status":  false,
		"/things/pool.1-49s82-7ftnf":         false,
	} {
		if got := pattern.MatchString(path); got != want {
			t.Errorf("%s matches: %t, want %t", path, got, want)
		}
	}
}

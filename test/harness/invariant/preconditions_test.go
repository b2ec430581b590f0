package invariant_test

import (
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

func TestPreconditions(t *testing.T) {
	p := part("p", "p1")
	verb := func(v string) func(*history.Request) { return func(r *history.Request) { r.Verb = v } }
	bare := func(r *history.Request) { r.NeedsUID, r.NeedsVersion = "", "" }
	version := func(r *history.Request) { r.NeedsUID, r.NeedsVersion = "", "7" }
	unread := func(r *history.Request) { r.Body = false; bare(r) }
	check(t, invariant.Preconditions, map[string]row{
		"ByUID":     {history: tell(ends("a", p)), want: invariant.Held},
		"ByVersion": {history: tell(ends("a", p, version)), want: invariant.Held},
		"ByName": {history: tell(ends("a", p, bare)), want: invariant.Broken,
			says: []string{"delete of configmaps ns/p by replica a at resourceVersion 102",
				"neither UID nor resourceVersion"}},
		"ByNameRefused": {history: tell(asks("a", "delete", p, history.Refused, 404, bare)), want: invariant.Broken},
		"UsersByName":   {history: tell(ends("a", p), ends("alice", p, bare)), want: invariant.Held},
		"Update":        {history: tell(writes("a", p, verb("update"))), want: invariant.Held},
		"BlindUpdate": {history: tell(writes("a", p, verb("update"), bare)), want: invariant.Broken,
			says: []string{"update of configmaps ns/p", "no resourceVersion"}},
		"UIDIsNoUpdate": {history: tell(writes("a", p, verb("update"), bare, func(r *history.Request) { r.NeedsUID = "p1" })),
			want: invariant.Broken},
		"Collection": {history: tell(asks("a", "deletecollection", p, history.Deleted, 200)), want: invariant.Broken,
			says: []string{"all objects of the collection"}},
		"Patch":       {history: tell(ends("a", p), writes("a", p, bare)), want: invariant.Held, says: []string{"1 checked"}},
		"NotItsKinds": {history: tell(ends("a", p), ends("a", object("Lease", "x", "l9"), bare)), want: invariant.Held},
		"NotWritten": {history: tell(ends("a", p, unread)), want: invariant.Inconclusive,
			says: []string{"were not recorded"}},
		"DryRun": {history: tell(asks("a", "delete", p, history.Dry, 200, bare)), want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
		"NotRecorded": {history: tell(ends("a", p, bare), without(history.Audit)), want: invariant.Inconclusive,
			says: []string{"[audit]"}},
	})
}

// SPDX-License-Identifier: Apache-2.0

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
	check(t, invariant.Preconditions, table{
		"ByUID":     wantHeld(play(ends("a", p))),
		"ByVersion": wantHeld(play(ends("a", p, version))),
		"ByName": wantBroken(play(ends("a", p, bare)), "delete of configmaps ns/p by replica a at resourceVersion 102",
			"neither UID nor resourceVersion"),
		"ByNameRefused": wantBroken(play(asks("a", "delete", p, history.Refused, 404, bare))),
		"UsersByName":   wantHeld(play(ends("a", p), ends("alice", p, bare))),
		"Update":        wantHeld(play(writes("a", p, verb("update")))),
		"BlindUpdate": wantBroken(play(writes("a", p, verb("update"), bare)), "update of configmaps ns/p",
			"no resourceVersion"),
		"UIDIsNoUpdate": wantBroken(play(writes("a", p, verb("update"), bare,
			func(r *history.Request) { r.NeedsUID = "p1" }))),
		"Collection": wantBroken(play(asks("a", "deletecollection", p, history.Deleted, 200)),
			"all objects of the collection"),
		"Patch":       wantHeld(play(ends("a", p), writes("a", p, bare)), "1 checked"),
		"NotItsKinds": wantHeld(play(ends("a", p), ends("a", object("Lease", "x", "l9"), bare))),
		"Watched": wantBroken(play(ends("a", object("Secret", "s", "s1"), bare)), "delete of secrets s").
			under(watchSecrets),
		"NotWritten": wantInconclusive(play(ends("a", p, unread)), "were not recorded"),
		"DryRun": wantInconclusive(play(asks("a", "delete", p, history.Dry, 200, bare)),
			"nothing that this promise applies to"),
	})
}

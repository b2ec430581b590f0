// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

var secrets = history.Resource{Resource: "secrets"}

// secret returns a Secret without a mark of its owner. The values of its data are hashes.
func secret(name, uid string, hashes map[string]any) *unstructured.Unstructured {
	return object("Secret", name, uid, func(o *unstructured.Unstructured) {
		o.SetNamespace("ns")
		o.Object["data"] = hashes
	})
}

// hidden records a step whose request is in the audit log at level Metadata: without UID, version and body.
func hidden(inner step) step {
	return step{func(s *script) {
		inner.record(s)
		r := &s.Requests[len(s.Requests)-1]
		if version, exact := r.Exact(); exact {
			r.RevisionRange = history.RevisionRange{From: version - 1, To: version + 1}
		}
		r.UID, r.NeedsUID, r.NeedsVersion, r.Body = "", "", "", false
	}}
}

// nameless records the creation of a Secret whose name the API server chooses.
func nameless(name string) step {
	return step{func(s *script) {
		o := secret(name, "uid-"+name, map[string]any{"token": "h1"})
		generated(o)
		hidden(writes("a", o)).record(s)
		r := &s.Requests[len(s.Requests)-1]
		r.Verb, r.Name = "create", ""
	}}
}

// afterThing is a run of a Thing and these steps.
func afterThing(steps ...step) *history.History {
	return play(writes("alice", thing()), all(steps...), rests("end"))
}

func withSecrets(o *invariant.Contract) {
	o.Kinds[0].Children = append(o.Kinds[0].Children, invariant.Child{Resource: secrets, Annotation: madeFor})
}

func watchSecrets(o *invariant.Contract) { o.Watched = []history.Resource{secrets} }

// A key that is never removed was not reported: the audit log has no UID of a Secret, so no request
// of the operator was found for it.
func TestSecrets_AreJudged(t *testing.T) {
	with := afterThing
	written := func(hashes map[string]any) *history.History {
		return with(hidden(writes("a", secret("s", "s1", hashes))))
	}
	both, one := map[string]any{"token": "h1", "ca": "h2"}, map[string]any{"token": "h1"}
	random := func(h string) map[string]any { return map[string]any{"token": h} }
	steady := pair(written(one))
	varying := []*history.History{written(random("h1")), written(random("h2"))}
	made := func(names ...string) *history.History {
		var steps []step
		for _, name := range names {
			steps = append(steps, nameless(name))
		}
		return with(steps...)
	}
	for name, change := range map[string]func(*invariant.Contract){"Child": withSecrets, "Watched": watchSecrets} {
		t.Run(name, func(t *testing.T) {
			check(t, invariant.EndState, table{
				"Same": wantHeld(written(one), "2 checked").against(steady...),
				"KeyIsLeft": wantBroken(written(both),
					`secrets ns/s (UID s1 at resourceVersion 103): data.ca is "h2", in clean runs absent`).against(steady...),
				"OtherValue": wantBroken(written(random("h9")), `data.token is "h9", in clean runs "h1"`).against(steady...),
				"Random":     wantHeld(written(random("h9"))).against(varying...),
				"RandomIsGone": wantBroken(written(map[string]any{}), "data.token is absent, in clean runs it has a value").
					against(varying...),
				"NotThere":  wantBroken(with(), "secrets ns/s does not exist").against(steady...),
				"Generated": wantBroken(made("p-c", "p-d"), "secrets ns/p-* #2 (UID uid-p-d").against(made("p-e"), made("p-f")),
			}.under(change))
			check(t, invariant.SingleLifecycle, table{
				"Same": wantHeld(written(one), "2 checked").against(steady...),
				"MadeAnew": wantBroken(with(hidden(writes("a", secret("s", "s1", one))), hidden(ends("a", secret("s", "s1", one))),
					hidden(writes("a", secret("s", "s2", one)))),
					"secrets ns/s was created 2 times, in clean runs 1 times").against(steady...),
				"Generated": wantBroken(made("p-c", "p-d"), "secrets ns/p-* was created 2 times").against(made("p-e"), made("p-f")),
			}.under(change))
		})
	}
}

// Of a watched resource, objects that the operator wrote and those that the scenario's users
// created are judged. What the cluster makes by itself has other names in each run.
func TestWatched_IsJudgedIfTheScenarioOrTheOperatorMadeIt(t *testing.T) {
	with := afterThing
	one := map[string]any{"token": "h1"}
	users := func(steps ...step) *history.History {
		return with(hidden(writes("alice", secret("s", "s1", one))), all(steps...))
	}
	cluster := func(name string) *history.History {
		return with(hidden(writes("system:serviceaccount:kube-system:token-controller", secret(name, "uid-"+name, one))))
	}
	marked := func() *history.History {
		return with(hidden(writes("system:serviceaccount:kube-system:volume-controller", secret("s", "s1", one))),
			hidden(writes("a", secret("s", "s1", one))))
	}
	clean := pair(users())
	check(t, invariant.SingleLifecycle, table{
		"Users": wantHeld(users(), "2 checked").against(clean...).under(watchSecrets),
		"UsersIsDeleted": wantBroken(users(hidden(ends("a", secret("s", "s1", one)))),
			"secrets ns/s was deleted 1 times, in clean runs 0 times").against(clean...).under(watchSecrets),
		"Clusters": wantHeld(cluster("x"), "1 checked").against(cluster("y"), cluster("z")).under(watchSecrets),
		// In the clean runs the operator changes what the cluster made; here it does not come to that.
		"WrittenInCleanRunsAlone": wantHeld(cluster("s"), "2 checked").against(marked(), marked()).under(watchSecrets),
		"WrittenHereAlone":        wantHeld(marked(), "2 checked").against(cluster("s"), cluster("s")).under(watchSecrets),
		"GoneHereAlone": wantBroken(with(), "secrets ns/s was created 0 times, in clean runs 1 times").
			against(marked(), marked()).under(watchSecrets),
		"NotWatchedNoChild": wantBroken(users(hidden(ends("a", secret("s", "s1", one)))), "secrets ns/s, which a step before").
			against(clean...).lacking("clean runs 0 times"),
		"RefusedWrite": wantHeld(with(hidden(writes("system:x", secret("s", "s1", one))),
			hidden(asks("a", "update", secret("s", "s1", one), history.Refused, 409)))).against(with(),
			with()).under(watchSecrets),
	})
}

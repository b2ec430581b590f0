package run

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func TestPlans_ExternalFaults(t *testing.T) {
	const thing = "/{thing}"
	calls := []call{
		{Method: http.MethodHead, Path: thing, Answered: true},
		{Method: http.MethodPut, Path: thing}, // it was lost
		{Method: http.MethodPut, Path: thing, Changed: true, Answered: true},
		{Method: http.MethodGet, Path: thing + "?tags", Answered: true},
		{Method: http.MethodHead, Path: thing, Answered: true},
		{Method: http.MethodGet, Path: thing + "?list", Answered: true},
		{Method: http.MethodDelete, Path: thing, Changed: true, Answered: true},
	}
	// A look that was not made in all runs is no target, nor is a change.
	fewer := slices.Clone(calls[:4])
	s := scenario.Scenario{Name: "s", Faults: []scenario.FaultName{ExternalCrash,
		ExternalLostResponse, ExternalError, ExternalSlow}}
	plans := derivePlans(s, []observation{{Calls: calls}, {Calls: fewer}}, 1)
	var changes, looks []string
	for _, p := range plans {
		back, err := ParsePlan(p.ID())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s read again (-want +got):\n%s", p.ID(), diff)
		}
		if p.Target.Method == http.MethodPut {
			changes = append(changes, strings.TrimPrefix(p.ID(), "s:"))
			continue
		}
		_, target, _ := strings.Cut(strings.TrimPrefix(p.ID(), "s:"), ":")
		looks = append(looks, target)
	}
	if len(changes) != 4 {
		t.Fatalf("there are %d plans for the change, want 4: %q", len(changes), changes)
	}
	code, _, _ := strings.Cut(changes[3], ":")
	if !slices.Contains([]string{"external-error-403", "external-error-500", "external-error-503"}, code) {
		t.Errorf("the change is refused with %q", code)
	}
	var want []string
	for _, variant := range []string{"external-crash", "external-lost-response", "external-slow", code} {
		want = append(want, variant+":PUT:/{thing}:2")
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("plans for the change (-want +got):\n%s", diff)
	}
	slices.Sort(looks)
	if diff := cmp.Diff([]string{"GET:/{thing}?tags:1", "HEAD:/{thing}:1"}, looks); diff != "" {
		t.Errorf("plans for looks (-want +got):\n%s", diff)
	}
	all := derivePlans(s, []observation{{Calls: calls}, {Calls: calls}}, 1)
	if len(all) != 2*4+3 {
		t.Errorf("there are %d plans, want 4 for each of two changes and one for each of three looks", len(all))
	}
}

func TestPlans_WatchFaultsNeedEventsInAllRuns(t *testing.T) {
	const teams, parts = "/apis/example.com/v1/teams", "/apis/example.com/v1/namespaces/{team}/parts"
	runs := []observation{
		{WatchEvents: []watchEvent{{Path: teams, Action: 1}, {Path: parts, Action: 1}, {Path: teams, Action: 2},
			{Path: "/late", Action: 2}}},
		{WatchEvents: []watchEvent{{Path: parts, Action: 1}, {Path: teams, Action: 1}, {Path: teams, Action: 2}}},
	}
	derive := func(seed uint64) []Plan {
		return derivePlans(scenario.Scenario{Name: "s"}, runs, seed)
	}
	chosen := map[string]bool{} // by the random numbers
	for seed := range uint64(50) {
		var got []string
		for _, p := range derive(seed) {
			id := p.ID()
			back, err := ParsePlan(id)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, back); diff != "" {
				t.Errorf("%s read again (-want +got):\n%s", id, diff)
			}
			if p.Fault == watchDelay.fault || p.Fault == watchGap.fault {
				got = append(got, id)
			} else {
				chosen[id] = true
			}
		}
		var want []string
		for _, kind := range []string{"watch-delay", "watch-gap"} {
			for _, target := range []string{teams + ":1", parts + ":1", teams + ":2"} {
				want = append(want, "s:"+kind+":WATCH:"+target)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("late and missed news (-want +got):\n%s", diff)
		}
		if n := len(derive(seed)); n != len(want)+3 {
			t.Fatalf("%d plans with seed %d, want one start for each collection, and a stale start for one", n,
				seed)
		}
	}
	want := []string{"s:stale-start:START:" + teams + ":2"}
	for _, target := range []string{teams + ":1", parts + ":1", teams + ":2"} {
		for _, variant := range []string{"timeout", "403", "404"} {
			want = append(want, "s:failed-list-"+variant+":START:"+target)
		}
	}
	for _, id := range want {
		if !chosen[id] {
			t.Errorf("no seed has chosen %s", id)
		}
		delete(chosen, id)
	}
	if len(chosen) > 0 {
		t.Errorf("chosen too: %v", chosen)
	}
	if diff := cmp.Diff(derive(7), derive(7)); diff != "" {
		t.Errorf("the same seed gives other plans (-first +again):\n%s", diff)
	}
}

func TestPlans_NeedAnEffectInAllRuns(t *testing.T) {
	const path, other = "/apis/example.com/v1/teams/{team}", "/api/v1/namespaces/{team}:x"
	first := []write{
		{Method: "PATCH", Path: path, Effective: true},
		{Method: "PATCH", Path: path}, // changed nothing, and counts
		{Method: "PATCH", Path: path, Effective: true},
		{Method: "PATCH", Path: other, Effective: true},
		{Method: "DELETE", Path: path, Effective: true},
	}
	second := []write{
		{Method: "PATCH", Path: other, Effective: true}, // another order
		{Method: "PATCH", Path: path, Effective: true},
		{Method: "PATCH", Path: path},
		{Method: "PATCH", Path: path, Effective: true},
		{Method: "DELETE", Path: path}, // this time it had none
		{Method: "DELETE", Path: path, Effective: true},
	}
	plans := derivePlans(scenario.Scenario{Name: "s"}, []observation{{Writes: first}, {Writes: second}}, 1)
	var got []string
	for _, p := range plans {
		if !slices.Contains([]scenario.FaultName{"crash-after-write", "lost-response", "failed-write"}, p.Fault) {
			continue
		}
		id := p.ID()
		back, err := ParsePlan(id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s read again (-want +got):\n%s", id, diff)
		}
		if p.Fault == failedWrite.fault {
			id = strings.Replace(id, p.ID()[:len("s:failed-write-409")], "s:failed-write-code", 1)
		}
		got = append(got, id)
	}
	var want []string
	for _, kind := range []string{"crash-after-write", "lost-response", "failed-write-code"} {
		for _, target := range []string{"PATCH:" + path + ":1", "PATCH:" + path + ":3", "PATCH:" + other + ":1"} {
			want = append(want, "s:"+kind+":"+target)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	again := derivePlans(scenario.Scenario{Name: "s"}, []observation{{Writes: first}, {Writes: second}}, 1)
	if diff := cmp.Diff(plans, again); diff != "" {
		t.Errorf("the same seed gives other plans (-first +again):\n%s", diff)
	}
	if derivePlans(scenario.Scenario{Name: "s"}, nil, 1) != nil {
		t.Error("there are plans without a clean run")
	}
}

func TestPlans_OnlySelectedFaults(t *testing.T) {
	s := scenario.Scenario{Name: "s", Faults: []scenario.FaultName{lostResponse.fault}}
	run := observation{Writes: []write{{Method: "PATCH", Path: "/a", Effective: true, Made: true}}}
	plans := derivePlans(s, []observation{run, run}, 1)
	if len(plans) != 1 || plans[0].ID() != "s:lost-response:PATCH:/a:1" {
		t.Errorf("plans are %v, want the lost answer only", plans)
	}
}

func TestPlans_EnvironmentChangesAtFirstWrites(t *testing.T) {
	const team, room = "/apis/example.com/v1/teams/{team}", "/api/v1/namespaces/{team}"
	run := observation{Writes: []write{
		{Method: "PATCH", Path: team, Effective: true},
		{Method: "PATCH", Path: room, Effective: true, Made: true},
		{Method: "PATCH", Path: room, Effective: true},
		{Method: "PATCH", Path: "/unheard", Made: true},                                              // it was refused
		{Method: "POST", Path: "/apis/batch/v1/namespaces/{team}/jobs", Effective: true, Made: true}, // it names none
	}}
	ref := scenario.Ref{APIVersion: "v1", Kind: "Team", Name: "{team}"}
	for name, tc := range map[string]struct {
		steps []scenario.Step
		want  []string
	}{
		"Deleting": {[]scenario.Step{{Name: "end", Delete: &ref}},
			[]string{"metadata-stripped:PATCH:" + room, "object-deleted:PATCH:" + room, "metadata-contested:PATCH:" + room, "foreign-finalizer:STEP:end"}},
		"Staying": {nil, []string{"metadata-stripped:PATCH:" + room, "object-deleted:PATCH:" + room, "metadata-contested:PATCH:" + room}},
	} {
		s := scenario.Scenario{Name: "s", Steps: tc.steps, Faults: []scenario.FaultName{metadataStripped.fault,
			objectDeleted.fault, metadataContested.fault, finalizerOfAnother.fault}}
		var got []string
		for _, p := range derivePlans(s, []observation{run, run}, 1) {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(p.ID(), "s:"), ":1"))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: plans (-want +got):\n%s", name, diff)
		}
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for _, id := range []string{
		"", "s", "s:crash-after-write:PATCH", "s:crash-after-write:PATCH:/a", "s:crash-after-write:PATCH:/a:x", "s:crash-after-write:PATCH:/a:1x", "s:no-such-fault:PATCH:/a:1",
		"s:crash-after-write-409:PATCH:/a:1", "s:crash-after-write-:PATCH:/a:1", "s:failed-write:PATCH:/a:1", "s:failed-write-x:PATCH:/a:1", "s:failed-write-418:PATCH:/a:1",
	} {
		if p, err := ParsePlan(id); err == nil {
			t.Errorf("ParsePlan(%q) = %+v, want an error", id, p)
		}
	}
}

func TestPlans_AttacksAndInstallationChanges(t *testing.T) {
	s := scenario.Scenario{Name: "hostile", Steps: []scenario.Step{{Name: "first"}, {Name: "may not"}, {Name: "may"},
		{Name: "look", May: &scenario.Access{}}, {Name: "storm", Attack: &scenario.Attack{}}, {Name: "last"},
		{Name: "end", Quiesce: &scenario.Quiesce{}}}}
	run := observation{Changes: []InstallationChange{{Name: "other", Flag: "--x"},
		{Name: "no-right", Without: &Right{}, Scenarios: []string{"hostile"}},
		{Name: "elsewhere", Without: &Right{}, Scenarios: []string{"other"}}}}
	rules := map[string]bool{}
	for seed := range uint64(50) {
		var ids []string
		for _, p := range derivePlans(s, []observation{run, run}, seed) {
			back, err := ParsePlan(p.ID())
			if err != nil || back != p {
				t.Fatalf("%s is read again as %+v: %v", p.ID(), back, err)
			}
			if p.Target.Path == "elsewhere" {
				t.Fatalf("%s is not about this scenario", p.ID())
			}
			if p.Fault == RuleChange {
				rules[p.ID()] = true
				continue
			}
			if p.Fault == FlagChange || p.Fault == attackFault.fault {
				ids = append(ids, p.ID())
			}
		}
		// The attack is the fifth of all steps. The fifth of those that act is the only one
		// after an expected access, as clean runs leave the attack out.
		want := []string{"hostile:flag-change:CHANGE:other:5", "hostile:attack:ATTACK:storm:5"}
		if !slices.Equal(ids, want) {
			t.Fatalf("plans are %q, want %q", ids, want)
		}
	}
	if len(rules) < 2 {
		t.Errorf("the right is taken away at %v only", rules)
	}
}

func TestCheckFaults(t *testing.T) {
	s := scenario.Scenario{Faults: []scenario.FaultName{CrashAfterWrite, "no-such-fault"}}
	const want = `no fault is called "no-such-fault"`
	if err := CheckFaults(s); err == nil || err.Error() != want {
		t.Errorf("CheckFaults() = %v, want %s", err, want)
	}
	s.Faults = s.Faults[:1]
	if err := CheckFaults(s); err != nil {
		t.Error(err)
	}
}

package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func parse(t *testing.T, id string) scenario.Plan {
	t.Helper()
	p, err := scenario.ParsePlan(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ids(plans []scenario.Plan) []string {
	var all []string
	for _, p := range plans {
		all = append(all, p.ID())
	}
	return all
}

func TestPairs_AtEachWriteOfTheRecovery(t *testing.T) {
	first := parse(t, "s:crash-after-write:POST:/jobs:1")
	recovery := []scenario.Write{
		{Method: "POST", Path: "/jobs"}, // it found the object
		{Method: "PUT", Path: "/teams/{team}/status", Effective: true},
		{Method: "PUT", Path: "/teams/{team}/status", Effective: true},
	}
	pairs := first.Pairs(scenario.Scenario{}, recovery, 7)
	var got []string
	for _, id := range ids(pairs) {
		if diff := cmp.Diff(id, parse(t, id).ID()); diff != "" {
			t.Errorf("%s read again: %s", id, diff)
		}
		second := strings.TrimPrefix(id, first.ID()+"+")
		if strings.HasPrefix(second, "failed-write-") {
			second = "failed-write-code" + second[len("failed-write-500"):]
		}
		got = append(got, second)
	}
	slices.Sort(got)
	want := []string{
		"crash-after-write:PUT:/teams/{team}/status:1", "crash-after-write:PUT:/teams/{team}/status:2",
		"crash-before-write:POST:/jobs:1", "crash-before-write:PUT:/teams/{team}/status:1", "crash-before-write:PUT:/teams/{team}/status:2",
		"failed-write-code:POST:/jobs:1", "failed-write-code:PUT:/teams/{team}/status:1", "failed-write-code:PUT:/teams/{team}/status:2",
		"lost-response:PUT:/teams/{team}/status:1", "lost-response:PUT:/teams/{team}/status:2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	only := first.Pairs(scenario.Scenario{Faults: []scenario.Fault{"crash-after-write", "lost-response"}}, recovery, 7)
	if len(only) != 4 {
		t.Errorf("with crash-after-write and lost-response alone there are %q, want 4", ids(only))
	}
	if none := first.Pairs(scenario.Scenario{}, nil, 7); none != nil {
		t.Errorf("without a write there are %q", ids(none))
	}
}

func TestPairs_SeedFixesTheOrder(t *testing.T) {
	first := parse(t, "s:stale-start:START:/apis/example.com/v1/teams:2")
	var recovery []scenario.Write
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		recovery = append(recovery, scenario.Write{Method: "PATCH", Path: path, Effective: true})
	}
	all := ids(first.Pairs(scenario.Scenario{}, recovery, 7))
	if diff := cmp.Diff(all, ids(first.Pairs(scenario.Scenario{}, recovery, 7))); diff != "" {
		t.Errorf("the same seed gives other pairs (-first +again):\n%s", diff)
	}
	if slices.Equal(all, ids(first.Pairs(scenario.Scenario{}, recovery, 8))) {
		t.Error("another seed gives the same order")
	}
	without := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return strings.Contains(id, ":/b:") })
	fewer := ids(first.Pairs(scenario.Scenario{}, slices.Delete(slices.Clone(recovery), 1, 2), 7))
	if diff := cmp.Diff(without, fewer); diff != "" {
		t.Errorf("a write less changes the order of the others (-want +got):\n%s", diff)
	}
}

func TestParsePlan_SecondFault(t *testing.T) {
	const id = "s:crash-before-write:PATCH:/apis/rbac/v1/roles/a:b:2+failed-write-409:PUT:/x/{thing}/status:3"
	want := scenario.Plan{
		Scenario: "s", Fault: "crash-before-write", Target: scenario.Target{Method: "PATCH", Path: "/apis/rbac/v1/roles/a:b", Nth: 2},
		Second: scenario.Second{Fault: "failed-write", Variant: "409",
			Target: scenario.Target{Method: "PUT", Path: "/x/{thing}/status", Nth: 3}},
	}
	got := parse(t, id)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParsePlan(%q) (-want +got):\n%s", id, diff)
	}
	if first := got.First().ID(); first != "s:crash-before-write:PATCH:/apis/rbac/v1/roles/a:b:2" {
		t.Errorf("the first fault is %s", first)
	}
	said := got.Describe()
	for _, part := range []string{"number 2 of its kind in the run", "; in the recovery from that ", "409 (Conflict)",
		"number 3 of its kind in the recovery"} {
		if !strings.Contains(said, part) {
			t.Errorf("Describe() = %q, want %q in it", said, part)
		}
	}
	for _, id := range []string{
		"s:crash-after-write:PATCH:/a:1+", "s:crash-after-write:PATCH:/a:1+crash-before-write", "s:crash-after-write:PATCH:/a:1+crash-before-write:PUT:/b", "s:crash-after-write:PATCH:/a:1+crash-before-write:PUT:/b:x",
		"s:crash-after-write:PATCH:/a:1+no-such-fault:PUT:/b:1",
		"s:crash-after-write:PATCH:/a:1+failed-write:PUT:/b:1",                                   // no code
		"s:lost-response:PATCH:/a:1+crash-after-write:PUT:/b:1",                                  // nothing to recover from
		"s:crash-after-write:PATCH:/a:1+stale-start:START:/b:1",                                  // no fault of a write
		"s:crash-after-write:PATCH:/a:1+crash-before-write:PUT:/b:1+crash-before-write:PUT:/b:1", // three
		"s:crash-after-write:PATCH:/a:1+s:crash-before-write:PUT:/b:1",                           // the scenario twice
		"s:crash-after-write:PATCH:/a:1 + crash-before-write:PUT:/b:1",                           // spaces
	} {
		if p, err := scenario.ParsePlan(id); err == nil {
			t.Errorf("ParsePlan(%q) = %+v, want an error", id, p)
		}
	}
}

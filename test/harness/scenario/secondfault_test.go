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
	first := parse(t, "s:P1:POST:/jobs:1")
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
		if strings.HasPrefix(second, "P4-") {
			second = "P4-code" + second[len("P4-500"):]
		}
		got = append(got, second)
	}
	slices.Sort(got)
	want := []string{
		"P1:PUT:/teams/{team}/status:1", "P1:PUT:/teams/{team}/status:2",
		"P2:POST:/jobs:1", "P2:PUT:/teams/{team}/status:1", "P2:PUT:/teams/{team}/status:2",
		"P3:PUT:/teams/{team}/status:1", "P3:PUT:/teams/{team}/status:2",
		"P4-code:POST:/jobs:1", "P4-code:PUT:/teams/{team}/status:1", "P4-code:PUT:/teams/{team}/status:2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	only := first.Pairs(scenario.Scenario{Perturbations: []scenario.Perturbation{"P1", "P3"}}, recovery, 7)
	if len(only) != 4 {
		t.Errorf("with P1 and P3 alone there are %q, want 4", ids(only))
	}
	if none := first.Pairs(scenario.Scenario{}, nil, 7); none != nil {
		t.Errorf("without a write there are %q", ids(none))
	}
}

func TestPairs_SeedFixesTheOrder(t *testing.T) {
	first := parse(t, "s:P9:START:/apis/example.com/v1/teams:2")
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
	const id = "s:P2:PATCH:/apis/rbac/v1/roles/a:b:2+P4-409:PUT:/x/{thing}/status:3"
	want := scenario.Plan{
		Scenario: "s", Perturbation: "P2", Target: scenario.Target{Method: "PATCH", Path: "/apis/rbac/v1/roles/a:b", Nth: 2},
		Second: scenario.Second{Perturbation: "P4", Variant: "409",
			Target: scenario.Target{Method: "PUT", Path: "/x/{thing}/status", Nth: 3}},
	}
	got := parse(t, id)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParsePlan(%q) (-want +got):\n%s", id, diff)
	}
	if first := got.First().ID(); first != "s:P2:PATCH:/apis/rbac/v1/roles/a:b:2" {
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
		"s:P1:PATCH:/a:1+", "s:P1:PATCH:/a:1+P2", "s:P1:PATCH:/a:1+P2:PUT:/b", "s:P1:PATCH:/a:1+P2:PUT:/b:x",
		"s:P1:PATCH:/a:1+P99:PUT:/b:1",
		"s:P1:PATCH:/a:1+P4:PUT:/b:1",             // no code
		"s:P3:PATCH:/a:1+P1:PUT:/b:1",             // nothing to recover from
		"s:P1:PATCH:/a:1+P9:START:/b:1",           // no fault of a write
		"s:P1:PATCH:/a:1+P2:PUT:/b:1+P2:PUT:/b:1", // three
		"s:P1:PATCH:/a:1+s:P2:PUT:/b:1",           // the scenario twice
		"s:P1:PATCH:/a:1 + P2:PUT:/b:1",           // spaces
	} {
		if p, err := scenario.ParsePlan(id); err == nil {
			t.Errorf("ParsePlan(%q) = %+v, want an error", id, p)
		}
	}
}

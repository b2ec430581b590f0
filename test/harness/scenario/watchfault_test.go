package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func TestPlans_WatchFaultsNeedEventsInAllRuns(t *testing.T) {
	const teams, parts = "/apis/example.com/v1/teams", "/apis/example.com/v1/namespaces/{team}/parts"
	runs := []scenario.Observed{
		{WatchEvents: []scenario.WatchEvent{{Path: teams, Action: 1}, {Path: parts, Action: 1}, {Path: teams, Action: 2},
			{Path: "/late", Action: 2}}},
		{WatchEvents: []scenario.WatchEvent{{Path: parts, Action: 1}, {Path: teams, Action: 1}, {Path: teams, Action: 2}}},
	}
	derive := func(seed uint64) []scenario.Plan {
		return scenario.Plans(scenario.Scenario{Name: "s"}, runs, seed)
	}
	chosen := map[string]bool{} // by the random numbers
	for seed := range uint64(50) {
		var got []string
		for _, p := range derive(seed) {
			id := p.ID()
			back, err := scenario.ParsePlan(id)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, back); diff != "" {
				t.Errorf("%s read again (-want +got):\n%s", id, diff)
			}
			if p.Fault == scenario.WatchDelay || p.Fault == scenario.WatchGap {
				got = append(got, id)
			} else {
				chosen[id] = true
			}
		}
		var want []string
		for _, target := range []string{teams + ":1", parts + ":1", teams + ":2"} {
			want = append(want, "s:watch-delay:WATCH:"+target, "s:watch-gap:WATCH:"+target)
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

func TestStepsThatAct(t *testing.T) {
	s, err := scenario.Parse([]byte(team))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range s.Steps {
		got = append(got, map[bool]string{true: "acts", false: "waits"}[step.Acts()])
	}
	if want := strings.Fields("acts waits acts waits acts waits"); !slices.Equal(got, want) {
		t.Errorf("steps: %v, want %v", got, want)
	}
}

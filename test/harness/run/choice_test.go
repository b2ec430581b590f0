package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"leasehold.dev/test/harness/scenario"
)

// added is in the target of each plan about what one clean run has more than another.
const added = "/added"

// richRun is a clean run from which each rule derives plans.
func richRun() observation {
	run := observation{
		Leases:  "/leases",
		Changes: []InstallationChange{{Name: "flag", Flag: "--x"}, {Name: "rule", Without: &Right{}}},
	}
	for i := range 6 {
		run.Writes = append(run.Writes,
			write{Method: "PATCH", Path: fmt.Sprintf("/%d", i), Effective: true, Made: i%2 == 0})
		run.Calls = append(run.Calls,
			call{Method: "PUT", Path: fmt.Sprintf("/%d", i), Changed: true, Answered: true},
			call{Method: "GET", Path: fmt.Sprintf("/%d", i), Answered: true})
		run.WatchEvents = append(run.WatchEvents,
			watchEvent{Path: "/teams", Action: 1 + 2*i}, watchEvent{Path: "/parts", Action: 2 + 2*i})
	}
	return run
}

func richScenario() scenario.Scenario {
	s := scenario.Scenario{Name: "s"}
	for i := range 12 {
		s.Steps = append(s.Steps, scenario.Step{Name: fmt.Sprintf("step %d", i)})
	}
	return s
}

func planIDs(s scenario.Scenario, run observation, seed uint64) []string {
	return ids(derivePlans(s, []observation{run, run}, seed))
}

// kindOf returns the fault of a plan's ID, with its variant unless the variant is drawn.
func kindOf(id string) string {
	kind := strings.Split(id, ":")[1]
	if strings.Contains(id, ":GET:") {
		return "a disturbed read" // in one way, which is drawn
	}
	for _, drawn := range []string{"failed-write", "external-error", "failed-list"} {
		if strings.HasPrefix(kind, drawn+"-") {
			return drawn
		}
	}
	return kind
}

func TestPlans_OneMoreLeavesTheOthersAsTheyAre(t *testing.T) {
	for name, add := range map[string]func(run *observation, at int){
		"Write": func(run *observation, at int) {
			run.Writes = slices.Insert(run.Writes, at, write{Method: "PATCH", Path: added, Effective: true, Made: true})
		},
		"ChangingCall": func(run *observation, at int) {
			run.Calls = slices.Insert(run.Calls, at, call{Method: "PUT", Path: added, Changed: true, Answered: true})
		},
		"ReadingCall": func(run *observation, at int) {
			run.Calls = slices.Insert(run.Calls, at, call{Method: "GET", Path: added, Answered: true})
		},
		"WatchOfAnotherCollection": func(run *observation, at int) {
			run.WatchEvents = slices.Insert(run.WatchEvents, at, watchEvent{Path: added, Action: 3})
		},
		"ChangeOfTheInstallation": func(run *observation, at int) {
			run.Changes = slices.Insert(run.Changes, min(at, 2), InstallationChange{Name: added, Without: &Right{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				before := planIDs(richScenario(), richRun(), seed)
				for at := range 7 {
					run := richRun()
					add(&run, at)
					if problems := changed(before, planIDs(richScenario(), run, seed)); len(problems) > 0 {
						t.Fatalf("seed %d, added at %d: %d changes, such as %s", seed, at, len(problems), problems[0])
					}
				}
			}
		})
	}
}

// changed returns the plans that are new and not about what was added, and those that are gone
// without a plan of their kind about what was added.
func changed(before, after []string) []string {
	var problems []string
	places := map[string]int{}
	for _, id := range after {
		switch {
		case strings.Contains(id, added):
			places[kindOf(id)]++
		case !slices.Contains(before, id):
			problems = append(problems, "new: "+id)
		}
	}
	for _, id := range before {
		if slices.Contains(after, id) {
			continue
		}
		if places[kindOf(id)]--; places[kindOf(id)] < 0 {
			problems = append(problems, "gone: "+id)
		}
	}
	return problems
}

func TestPlans_OneStepMoreOfACollection(t *testing.T) {
	moved := 0
	for seed := range uint64(20) {
		before, run := planIDs(richScenario(), richRun(), seed), richRun()
		run.WatchEvents = append(run.WatchEvents, watchEvent{Path: "/teams", Action: 12})
		for _, id := range planIDs(richScenario(), run, seed) {
			if slices.Contains(before, id) {
				continue
			}
			if moved++; !strings.HasSuffix(id, ":/teams:12") {
				t.Errorf("seed %d: %s is new, want only plans at the new step", seed, id)
			}
		}
	}
	if moved == 0 {
		t.Error("no seed has chosen the new step")
	}
}

func ids(plans []Plan) []string {
	all := make([]string, len(plans))
	for i, p := range plans {
		all[i] = p.ID()
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

// planCase are clean runs, and the plans that they lead to, without the name of the scenario.
type planCase struct {
	faults []scenario.FaultName // empty: all
	steps  []scenario.Step
	runs   []observation
	// always are the plans of every seed, in order. Beside them each seed selects drawn plans, and every
	// one of chosen is selected by a seed.
	always, chosen []string
	drawn          int
}

func (tc planCase) test(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	s := scenario.Scenario{Name: "s", Faults: tc.faults, Steps: tc.steps}
	chosen := map[string]bool{}
	for seed := range uint64(100) {
		plans := derivePlans(s, tc.runs, seed)
		g.Expect(derivePlans(s, tc.runs, seed)).To(Equal(plans), "the same seed")
		var always []string
		drawn := 0
		for _, p := range plans {
			back, err := ParsePlan(p.ID())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(back).To(Equal(p))
			if id := strings.TrimPrefix(p.ID(), "s:"); slices.Contains(tc.always, id) {
				always = append(always, id)
			} else {
				chosen[id] = true
				drawn++
			}
		}
		g.Expect(always).To(Equal(tc.always))
		g.Expect(drawn).To(Equal(tc.drawn), "seed %d: %v", seed, plans)
	}
	g.Expect(slices.Collect(maps.Keys(chosen))).To(ConsistOf(tc.chosen))
}

// product returns all texts of one of each.
func product(firsts []string, seconds ...string) []string {
	var all []string
	for _, first := range firsts {
		for _, second := range seconds {
			all = append(all, first+second)
		}
	}
	return all
}

// observedWrites returns a clean run with so many writes.
func observedWrites(n int) []observation {
	var run observation
	for i := range n {
		run.Writes = append(run.Writes, call{Method: "PATCH", Path: "/" + strconv.Itoa(i), Changed: true})
	}
	return []observation{run, run}
}

const (
	teams = "/apis/example.com/v1/teams"
	team  = teams + "/{team}"
	parts = "/apis/example.com/v1/namespaces/{team}/parts"
	space = "/api/v1/namespaces/{team}:x"
)

var observedCalls = []call{
	{Method: "HEAD", Path: "/{thing}", Answered: true},
	{Method: "PUT", Path: "/{thing}"}, // it was lost
	{Method: "PUT", Path: "/{thing}", Changed: true, Answered: true},
	{Method: "GET", Path: "/{thing}?tags", Answered: true},
	{Method: "HEAD", Path: "/{thing}", Answered: true},
	{Method: "GET", Path: "/{thing}?list", Answered: true},
	{Method: "DELETE", Path: "/{thing}", Changed: true, Answered: true},
}

var (
	externalFaults = []scenario.FaultName{ExternalCrash, ExternalError}
	externalForms  = []string{"external-crash:", "external-error-403:", "external-error-500:", "external-error-503:"}
	deletion       = scenario.Step{Name: "end", Delete: new(refTo("a"))}
)

var planCases = map[string]planCase{
	"effect in all runs": {faults: []scenario.FaultName{"crash-after-write", "lost-response", "failed-write"},
		runs: []observation{{Writes: []call{
			{Method: "PATCH", Path: team, Changed: true},
			{Method: "PATCH", Path: team}, // changed nothing, and counts
			{Method: "PATCH", Path: team, Changed: true},
			{Method: "PATCH", Path: space, Changed: true},
			{Method: "DELETE", Path: team, Changed: true},
		}}, {Writes: []call{
			{Method: "PATCH", Path: space, Changed: true}, // another order
			{Method: "PATCH", Path: team, Changed: true},
			{Method: "PATCH", Path: team},
			{Method: "PATCH", Path: team, Changed: true},
			{Method: "DELETE", Path: team}, // this time it had none
			{Method: "DELETE", Path: team, Changed: true},
		}}},
		always: product([]string{"crash-after-write:PATCH:", "lost-response:PATCH:"}, team+":1", team+":3", space+":1"),
		chosen: product(product([]string{"failed-write-"}, refusals...), ":PATCH:"+team+":1", ":PATCH:"+team+":3",
			":PATCH:"+space+":1"),
		drawn: 3},
	"no clean run": {},
	"one replica": {faults: []scenario.FaultName{"late-write", "leader-pause", "false-evidence", "lost-response"},
		runs:   []observation{{Alone: true, Writes: observedWrites(1)[0].Writes}},
		always: []string{"lost-response:PATCH:/0:1"}},
	"events in all runs": {runs: []observation{
		{WatchEvents: []watchEvent{{teams, 1}, {parts, 1}, {teams, 2}, {"/late", 2}}},
		{WatchEvents: []watchEvent{{parts, 1}, {teams, 1}, {teams, 2}}}},
		always: product([]string{"watch-delay:WATCH:"}, teams+":1", parts+":1", teams+":2"),
		// One start for each collection, and a stale one where there was an earlier state.
		chosen: append(product(product([]string{"failed-list-"}, races...), ":START:"+teams+":1", ":START:"+parts+":1",
			":START:"+teams+":2"),
			"stale-start:START:"+teams+":2"), drawn: 3},
	"earlier states": {faults: []scenario.FaultName{"stale-start"}, steps: []scenario.Step{
		{Apply: map[string]any{}},
		{Patch: &scenario.Patch{Merge: map[string]any{"metadata": map[string]any{"labels": nil}}}},
		{Wait: &scenario.Wait{}}, {Apply: map[string]any{}}, {Patch: &scenario.Patch{}}, deletion},
		runs: []observation{{WatchEvents: []watchEvent{
			{teams, 1}, {teams, 2}, {teams, 3}, {teams, 4}, {teams, 5}, {parts, 5}}}},
		always: product([]string{"stale-start:START:"}, teams+":2", teams+":5", parts+":5"),
		chosen: product([]string{"stale-start:START:"}, teams+":3", teams+":4"), drawn: 1},
	"events of the Lease": {runs: []observation{{Leases: "/leases"}}, steps: []scenario.Step{deletion,
		{Wait: &scenario.Wait{}}, deletion},
		faults: []scenario.FaultName{"watch-delay", "stale-start"}, drawn: 2,
		chosen: product([]string{"watch-delay:WATCH:", "stale-start:START:"}, "/leases:1",
			"/leases:2")},
	"no watch of the Lease": {faults: []scenario.FaultName{"watch-delay", "stale-start"}, runs: []observation{{}},
		steps: []scenario.Step{deletion}},
	// A read that was not sent in all runs is no target, nor is a change.
	"calls in all runs": {faults: externalFaults, runs: []observation{{Calls: observedCalls},
		{Calls: observedCalls[:4]}},
		always: product(externalForms[:1], "PUT:/{thing}:2"), drawn: 3,
		chosen: append(product(externalForms[1:], "PUT:/{thing}:2"), product(externalForms, "HEAD:/{thing}:1",
			"GET:/{thing}?tags:1")...)},
	"a few reads": {faults: externalFaults, drawn: 5,
		runs: []observation{{Calls: append(slices.Clone(observedCalls), call{Method: "GET", Path: "/{thing}?x",
			Answered: true})}},
		always: product(externalForms[:1], "PUT:/{thing}:2", "DELETE:/{thing}:1"),
		chosen: append(product(externalForms[1:], "PUT:/{thing}:2", "DELETE:/{thing}:1"), product(externalForms,
			"HEAD:/{thing}:1", "HEAD:/{thing}:2", "GET:/{thing}?tags:1", "GET:/{thing}?list:1", "GET:/{thing}?x:1")...)},
	"selected faults": {faults: []scenario.FaultName{"lost-response"}, runs: observedWrites(1),
		always: []string{"lost-response:PATCH:/0:1"}},
	// The attack is the fifth of all steps, and the fifth of those that act.
	"attacks": {steps: []scenario.Step{{Name: "first"}, {Name: "may not"}, {Name: "may"},
		{Name: "look", May: &scenario.Access{}}, {Name: "storm", Attack: &scenario.Attack{}}, {Name: "last"},
		{Name: "end", Quiesce: &scenario.Quiesce{}}},
		runs: []observation{{}}, always: []string{"attack:ATTACK:storm:5"}},
	"late writes": {faults: []scenario.FaultName{"late-write"}, runs: observedWrites(5),
		always: product([]string{"late-write:PATCH:/"}, "0:1", "1:1", "2:1", "3:1", "4:1")},
	"no write": {faults: []scenario.FaultName{"leader-pause", "false-evidence"}, runs: observedWrites(0)},
	"a write": {faults: []scenario.FaultName{"leader-pause"}, runs: observedWrites(1),
		always: []string{"leader-pause:PATCH:/0:1"}},
	"two writes": {faults: []scenario.FaultName{"leader-pause"}, runs: observedWrites(2),
		always: product([]string{"leader-pause:PATCH:/"}, "0:1", "1:1")},
	"three writes": {faults: []scenario.FaultName{"leader-pause"}, runs: observedWrites(3), drawn: 1,
		always: product([]string{"leader-pause:PATCH:/"}, "0:1", "2:1"), chosen: []string{"leader-pause:PATCH:/1:1"}},
}

func TestPlans(t *testing.T) {
	for name, tc := range planCases {
		t.Run(name, tc.test)
	}
	for _, f := range []scenario.FaultName{"leader-pause", "stop-leader"} {
		forms := product([]string{string(f) + ":PATCH:/"}, "0:1", "4:1", "1:1", "2:1", "3:1")
		t.Run(string(f), planCase{faults: []scenario.FaultName{f}, runs: observedWrites(5), always: forms[:2],
			chosen: forms[2:], drawn: 1}.test)
	}
	t.Run("upgrade", planCase{faults: []scenario.FaultName{"upgrade"}, runs: observedWrites(5), drawn: 1,
		chosen: product([]string{"upgrade:PATCH:/"}, "0:1", "1:1", "2:1", "3:1", "4:1")}.test)
	t.Run("false-evidence", planCase{faults: []scenario.FaultName{"false-evidence"}, runs: observedWrites(2), drawn: 2,
		chosen: product(product([]string{"false-evidence-"}, evidences...), ":PATCH:/0:1", ":PATCH:/1:1")}.test)
}

func TestParsePlanRefuses(t *testing.T) {
	const rest = ":PATCH:/a:1"
	for _, id := range []string{"", "s", "s:crash-after-write:PATCH", "s:crash-after-write:PATCH:/a",
		"s:crash-after-write:PATCH:/a:x",
		"s:crash-after-write:PATCH:/a:1x", "s:no-such-fault" + rest, "s:crash-after-write-409" + rest,
		"s:crash-after-write-" + rest,
		"s:failed-write" + rest, "s:failed-write-x" + rest, "s:failed-write-418" + rest} {
		if p, err := ParsePlan(id); err == nil {
			t.Errorf("ParsePlan(%q) = %+v, want an error", id, p)
		}
	}
}

func TestCheckFaults(t *testing.T) {
	g := NewWithT(t)
	g.Expect(CheckFaults(scenario.Scenario{Faults: []scenario.FaultName{"crash-after-write", "no-such-fault"}})).
		To(MatchError(`no fault is called "no-such-fault"`))
	g.Expect(CheckFaults(scenario.Scenario{Faults: []scenario.FaultName{"crash-after-write"}})).To(Succeed())
}

// added is in the target of each plan about what one clean run has more than another.
const added = "/added"

// richRun is a clean run from which each rule derives plans.
func richRun() observation {
	run := observation{Leases: "/leases"}
	for i := range 6 {
		path := fmt.Sprintf("/%d", i)
		run.Writes = append(run.Writes, call{Method: "PATCH", Path: path, Changed: true})
		run.Calls = append(run.Calls, call{Method: "PUT", Path: path, Changed: true, Answered: true},
			call{Method: "GET", Path: path, Answered: true})
		run.WatchEvents = append(run.WatchEvents, watchEvent{Path: "/teams", Action: 1 + 2*i}, watchEvent{Path: "/parts",
			Action: 2 + 2*i})
	}
	return run
}

func planIDs(run observation, seed uint64) []string {
	s := scenario.Scenario{Name: "s", Steps: make([]scenario.Step, 12)}
	var all []string
	for _, p := range derivePlans(s, []observation{run, run}, seed) {
		all = append(all, p.ID())
	}
	return all
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
			run.Writes = slices.Insert(run.Writes, at, call{Method: "PATCH", Path: added, Changed: true})
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
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				before := planIDs(richRun(), seed)
				for at := range 7 {
					run := richRun()
					add(&run, at)
					if problems := changed(before, planIDs(run, seed)); len(problems) > 0 {
						t.Fatalf("seed %d, added at %d: %d changes, such as %s", seed, at, len(problems), problems[0])
					}
				}
			}
		})
	}
}

// changed returns the new plans that do not concern the addition, and the missing plans without a
// plan of their kind for the addition.
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
		before, run := planIDs(richRun(), seed), richRun()
		run.WatchEvents = append(run.WatchEvents, watchEvent{Path: "/teams", Action: 12})
		for _, id := range planIDs(run, seed) {
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

// Each variant has a description of its own.
func TestDescribe_CoversEveryFault(t *testing.T) {
	for _, of := range specs {
		seen := map[string]string{}
		for _, variant := range of.forms() {
			p := Plan{Scenario: "s", Fault: of.fault, Variant: variant,
				Target: Target{Method: "PATCH", Path: "/a/{b}", Nth: 2}}
			got := p.Describe()
			if got == "" || strings.Contains(got, "VARIANT") || strings.Contains(got, "TARGET") {
				t.Errorf("the words of %s: %q", p.ID(), got)
			}
			if other, same := seen[got]; same {
				t.Errorf("%s has the words of variant %s: %q", p.ID(), other, got)
			}
			seen[got] = variant
		}
	}
	p := Plan{Fault: failedWrite.fault, Variant: "409", Target: Target{Method: "PATCH", Path: "/a/{b}", Nth: 2}}
	const want = "a replica receives 409 (Conflict) for PATCH of /a/{b}, number 2 of its kind in the run, which never reaches the API server"
	if got := p.Describe(); got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
}

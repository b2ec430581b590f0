package scenario

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// Write is a request of the subject, in a clean run, that was to change something.
type Write struct {
	Method string
	// Path has placeholders where it has names of the scenario.
	Path string
	// Effective: it did change something.
	Effective bool
	// Made: it made an object, other than those that the subject reconciles.
	Made bool
}

// Observed is what was seen of the subject in one clean run. Names of the scenario
// are placeholders in it.
type Observed struct {
	// Writes are the requests to the API server that were to change something, in
	// the order in which they came.
	Writes []Write
	// Calls are the requests to what is outside the cluster that are about the run's
	// own things, in the order in which they came.
	Calls []Call
	// News are what watches told of the run's own objects, each once, in the order in
	// which it came.
	News []News
	// Leases is the path of the collection with the Lease; empty if that is not watched.
	Leases string
	// Unelected says that it is known how a replica acts without being elected.
	Unelected bool
	// Changes are those that the subject's installation may see.
	Changes []Change
}

// derivation is what plans are derived from.
type derivation struct {
	scenario Scenario
	runs     []Observed
	random   *rand.Rand
}

func (d *derivation) plan(p Perturbation, variant string, t Target) Plan {
	return Plan{Scenario: d.scenario.Name, Perturbation: p, Variant: variant, Target: t}
}

// derivations are the rules by which plans come to be, in the order of the plans.
var derivations = []func(d *derivation) []Plan{
	atEachWrite,
	lateWrites,
	lostLeaders,
	twins,
	atNews,
	worldMoves,
	outsideFails,
	installationChanges,
	attacks,
	failover,
}

// Plans derives what can go wrong from what was seen in clean runs. What was seen
// in some runs only is no target, as it could not be met for sure. The random
// numbers choose where not everything is tried.
func Plans(s Scenario, runs []Observed, random *rand.Rand) []Plan {
	if len(runs) == 0 {
		return nil
	}
	d := &derivation{scenario: s, runs: runs, random: random}
	var plans []Plan
	for _, derive := range derivations {
		plans = append(plans, derive(d)...)
	}
	if len(s.Perturbations) > 0 {
		plans = slices.DeleteFunc(plans, func(p Plan) bool { return !slices.Contains(s.Perturbations, p.Perturbation) })
	}
	return plans
}

// atEachWrite are the deaths and errors at each write. The random numbers choose
// the code of each Refuse.
func atEachWrite(d *derivation) []Plan {
	var plans []Plan
	for _, t := range d.writes() {
		for _, p := range []Perturbation{DieAfterCommit, DieBeforeCommit, LoseAnswer} {
			plans = append(plans, d.plan(p, "", t))
		}
		plans = append(plans, d.plan(Refuse, strconv.Itoa(codes[d.random.IntN(len(codes))]), t))
	}
	return plans
}

// writes are the requests to the API server that had an effect in all runs, in the
// order of the first.
func (d *derivation) writes() []Target {
	return steady(d.runs, func(o Observed) []Write { return o.Writes })
}

// steady are the requests of one kind that had an effect in all runs.
func steady(runs []Observed, of func(Observed) []Write) []Target {
	in := map[Target]int{}
	var order, all []Target
	for i, run := range runs {
		nth := map[Target]int{}
		for _, w := range of(run) {
			t := Target{Method: w.Method, Path: w.Path}
			nth[t]++
			t.Nth = nth[t]
			if !w.Effective {
				continue
			}
			in[t]++
			if i == 0 {
				order = append(order, t)
			}
		}
	}
	for _, t := range order {
		if in[t] == len(runs) {
			all = append(all, t)
		}
	}
	return all
}

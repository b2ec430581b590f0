package scenario

import (
	"cmp"
	"slices"
	"strings"
)

// Write is a write of the subject in a clean run.
type Write struct {
	Method string
	// Path has placeholders for names of the scenario.
	Path string
	// Effective means that the write changed something.
	Effective bool
	// Made means that it created an object, other than those that the subject reconciles.
	Made bool
}

// Observed is the behavior of the subject in one clean run, with placeholders for names of the
// scenario.
type Observed struct {
	// Writes are the writes to the API server in the order in which they came.
	Writes []Write
	// Calls are the calls about the run's own external things in the order in which they came.
	Calls []Call
	// WatchEvents are the watch events about the run's own objects, each once, in the order in
	// which they came.
	WatchEvents []WatchEvent
	// Leases is the path of the collection with the Lease; empty if no replica watches it.
	Leases string
	// Changes are the possible changes of the installation.
	Changes []Change
}

// Rename replaces names in the paths of writes, by what they were called before.
func (o *Observed) Rename(names map[string]string) {
	for i, w := range o.Writes {
		parts := strings.Split(w.Path, "/")
		for j, part := range parts {
			parts[j] = cmp.Or(names[part], part)
		}
		o.Writes[i].Path = strings.Join(parts, "/")
	}
}

// derivation is the input of the rules that derive plans.
type derivation struct {
	scenario Scenario
	runs     []Observed
	seed     uint64
}

func (d *derivation) plan(p Fault, variant string, t Target) Plan {
	return Plan{Scenario: d.scenario.Name, Fault: p, Variant: variant, Target: t}
}

// derivations are the rules in the order of their plans.
var derivations = []func(d *derivation) []Plan{
	atEachWrite,
	lateWrites,
	leaderFaults,
	upgrades,
	watchFaults,
	environmentChanges,
	externalFaults,
	installationChanges,
	attacks,
	failover,
}

// Plans derives the plans of a scenario from its clean runs. Only requests that came in all runs
// are targets, because others may not come again. The seed selects targets and variants where not
// all are tried, for each plan by its ID: one request more or fewer does not change other plans.
func Plans(s Scenario, runs []Observed, seed uint64) []Plan {
	if len(runs) == 0 {
		return nil
	}
	d := &derivation{scenario: s, runs: runs, seed: seed}
	var plans []Plan
	for _, derive := range derivations {
		plans = append(plans, derive(d)...)
	}
	if len(s.Faults) > 0 {
		plans = slices.DeleteFunc(plans, func(p Plan) bool { return !slices.Contains(s.Faults, p.Fault) })
	}
	return plans
}

// atEachWrite plans crashes, lost answers and refusals at each write. The seed selects the code of
// each refusal.
func atEachWrite(d *derivation) []Plan {
	var plans []Plan
	for _, t := range d.writes() {
		for _, p := range []Fault{CrashAfterWrite, LostResponse} {
			plans = append(plans, d.plan(p, "", t))
		}
		plans = append(plans, d.plan(FailedWrite, draw(d.seed, d.plan(FailedWrite, "", t), texts(codes)), t))
	}
	return plans
}

// writes returns the writes that had an effect in all runs, in the order of the first run.
func (d *derivation) writes() []Target {
	return steady(d.runs, func(o Observed) []Write { return o.Writes })
}

// steady returns the requests that had an effect in all runs.
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

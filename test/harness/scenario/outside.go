package scenario

import (
	"net/http"
	"strconv"
)

// OutsideFails is that a call to what is outside the cluster goes wrong.
const OutsideFails Perturbation = "P5"

// The variants of OutsideFails, besides the codes of outsideCodes with which a call
// is refused that is not forwarded.
const (
	// OutsideDieAfter kills the replica when its call was answered, before it knows.
	OutsideDieAfter = "die-after"
	// OutsideDieBefore kills the replica when its call is on the way.
	OutsideDieBefore = "die-before"
	// OutsideLose cuts the connection when the call was answered.
	OutsideLose = "lose"
	// OutsideSlow lets the answer come late.
	OutsideSlow = "slow"
)

// outsideCodes are those with which a call may be refused: no right, an internal
// error, too much to do.
var outsideCodes = []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}

// looksTried is at how many of the calls that only look something goes wrong.
const looksTried = 3

// Call is a request of the subject, in a clean run, to what is outside the cluster.
type Call struct {
	Method string
	// Path has placeholders where it has names of the scenario, and the names of the
	// query's parameters, in order, as in /{bucket}?tagging.
	Path string
	// Changed: it changed something there.
	Changed bool
	// Answered: there was an answer.
	Answered bool
}

// outsideFails are the deaths, losses and delays at each call that changed
// something, and an error in its place; and one of these, which the random numbers
// choose, at a few of the calls that only look.
func outsideFails(d *derivation) []Plan {
	ways := func() []string {
		code := outsideCodes[d.random.IntN(len(outsideCodes))]
		return []string{OutsideDieAfter, OutsideDieBefore, OutsideLose, OutsideSlow, strconv.Itoa(code)}
	}
	var plans []Plan
	for _, t := range d.calls(func(c Call) bool { return c.Changed }) {
		for _, variant := range ways() {
			plans = append(plans, d.plan(OutsideFails, variant, t))
		}
	}
	looks := d.calls(func(c Call) bool { return !c.Changed && c.Answered })
	d.random.Shuffle(len(looks), func(i, j int) { looks[i], looks[j] = looks[j], looks[i] })
	for _, t := range looks[:min(looksTried, len(looks))] {
		all := ways()
		plans = append(plans, d.plan(OutsideFails, all[d.random.IntN(len(all))], t))
	}
	return plans
}

// calls are those of one kind that were made in all runs, in the order of the first.
func (d *derivation) calls(wanted func(Call) bool) []Target {
	return steady(d.runs, func(o Observed) []Write {
		var all []Write
		for _, c := range o.Calls {
			all = append(all, Write{Method: c.Method, Path: c.Path, Effective: wanted(c)})
		}
		return all
	})
}

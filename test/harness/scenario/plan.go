package scenario

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Perturbation is a kind of thing that goes wrong.
type Perturbation string

const (
	// DieAfterCommit kills the replica when the API server has done what it asked
	// for, before the replica knows.
	DieAfterCommit Perturbation = "P1"
	// DieBeforeCommit kills the replica when its request is on the way, which the
	// API server never sees.
	DieBeforeCommit Perturbation = "P2"
	// LoseAnswer cuts the connection when the API server has done what was asked
	// for. The replica lives, and does not know.
	LoseAnswer Perturbation = "P3"
	// Refuse answers with an error instead of the API server, which sees nothing.
	Refuse Perturbation = "P4"
)

// codes are those that a Refuse may have: a conflict, too many requests, an
// internal error, no service, a timeout.
var codes = []int{
	http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// Target is the request that something happens to: the nth of the subject's
// requests in a run with this method and path.
type Target struct {
	Method string `json:"method"`
	// Path has placeholders where it has names of the scenario.
	Path string `json:"path"`
	Nth  int    `json:"nth"`
}

// separator stands between the parts of a plan's ID. No path of the API has one
// that would be mistaken: the number is after the last, the path after the third.
const separator = ":"

// Plan is one thing that goes wrong in one run of a scenario.
type Plan struct {
	Scenario     string       `json:"scenario"`
	Perturbation Perturbation `json:"perturbation"`
	// Code is what a Refuse answers with.
	Code   int    `json:"code,omitempty"`
	Target Target `json:"target"`
}

// ID is the plan in one word. It means the same in every run.
func (p Plan) ID() string {
	kind := string(p.Perturbation)
	if p.Code != 0 {
		kind = fmt.Sprintf("%s-%d", kind, p.Code)
	}
	return strings.Join([]string{p.Scenario, kind, p.Target.Method, p.Target.Path, fmt.Sprint(p.Target.Nth)}, separator)
}

// ParsePlan reads an ID.
func ParsePlan(id string) (Plan, error) {
	var p Plan
	parts := strings.SplitN(id, separator, 4)
	if len(parts) != 4 {
		return p, fmt.Errorf("reading plan %q: it is not scenario:perturbation:method:path:nth", id)
	}
	kind, code, refuses := strings.Cut(parts[1], "-")
	path, nth, _ := cutLast(parts[3])
	p = Plan{Scenario: parts[0], Perturbation: Perturbation(kind), Target: Target{Method: parts[2], Path: path}}
	if _, err := fmt.Sscanf(nth, "%d", &p.Target.Nth); err != nil {
		return p, fmt.Errorf("reading plan %q: reading which request: %w", id, err)
	}
	if refuses {
		if _, err := fmt.Sscanf(code, "%d", &p.Code); err != nil {
			return p, fmt.Errorf("reading plan %q: reading the code: %w", id, err)
		}
	}
	switch p.Perturbation {
	case DieAfterCommit, DieBeforeCommit, LoseAnswer, Refuse:
	default:
		return p, fmt.Errorf("reading plan %q: no perturbation is called %q", id, kind)
	}
	// What is left out, or too much, shows when it is put together again.
	if p.ID() != id || (p.Perturbation == Refuse) != refuses {
		return p, fmt.Errorf("reading plan %q: it should be %q", id, p.ID())
	}
	return p, nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// Write is a request of the subject, in a clean run, that was to change something.
type Write struct {
	Method string
	// Path has placeholders where it has names of the scenario.
	Path string
	// Effective: it did change something.
	Effective bool
}

// Plans derives what can go wrong from the writes of clean runs, each in the order
// in which the requests came. Each write that had an effect in all runs is a
// target; what is in some runs only could not be met for sure. The random numbers
// choose the code of each Refuse.
func Plans(s Scenario, runs [][]Write, random *rand.Rand) []Plan {
	if len(runs) == 0 {
		return nil
	}
	in := map[Target]int{}
	var order []Target // of the first run
	for i, run := range runs {
		nth := map[Target]int{}
		for _, w := range run {
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
	var plans []Plan
	for _, t := range order {
		if in[t] != len(runs) {
			continue
		}
		for _, p := range []Perturbation{DieAfterCommit, DieBeforeCommit, LoseAnswer} {
			plans = append(plans, Plan{Scenario: s.Name, Perturbation: p, Target: t})
		}
		plans = append(plans, Plan{Scenario: s.Name, Perturbation: Refuse, Code: codes[random.IntN(len(codes))], Target: t})
	}
	return plans
}

package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	// Its variants are the codes.
	Refuse Perturbation = "P4"
	// Elsewhere is no fault: the operator is installed in a namespace of another name,
	// by manifests of its own. It cannot be derived, and is not part of a run.
	Elsewhere Perturbation = "P20"
)

// ManifestsTarget is the method of a target that is an installation's manifests.
const ManifestsTarget = "MANIFESTS"

// codes are those that a Refuse may have: a conflict, too many requests, an
// internal error, no service, a timeout.
var codes = []int{
	http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// variants are those of each perturbation that there is; "" is that it has none.
var variants = map[Perturbation][]string{
	DieAfterCommit:  {""},
	DieBeforeCommit: {""},
	LoseAnswer:      {""},
	Refuse:          texts(codes),
	DeliverLate:     {""},
	Pause:           {"", VariantReconnect},
	CutLease:        {"", VariantRest},
	CutOff:          {VariantLeader, VariantAll, VariantStart},
	Ask:             {"", VariantStandby, VariantStart, VariantSlow},
	FalseEvidence:   {VariantTerminated, VariantDeleted, VariantReplaced},
	Twins:           {VariantUnelected, VariantUpgrade},
	LateNews:        {""},
	MissedNews:      {""},
	LostNews:        {""},
	StaleStart:      {""},
	StartRace:       append(texts(raceCodes), NoAnswer),
	Elsewhere:       {""},
	WorldMoves:      {StripLabels, RemoveChild, Rival, ForeignFinalizer},
	Changed:         {FlagChange, RuleChange, WebhookChange, DefinitionChange},
	Hostile:         {""},
	OutsideFails:    append([]string{OutsideDieAfter, OutsideDieBefore, OutsideLose, OutsideSlow}, texts(outsideCodes)...),
}

func texts(numbers []int) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// Target is what something happens to. Of most perturbations it is the nth of the
// subject's requests in a run with this method and path; a perturbation that is
// about something else says so with a word of its own as the method.
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
	// Variant is which of a perturbation's forms it is; "" if it has one only.
	Variant string `json:"variant,omitempty"`
	Target  Target `json:"target"`
}

// ID is the plan in one word. It means the same in every run.
func (p Plan) ID() string {
	kind := string(p.Perturbation)
	if p.Variant != "" {
		kind += "-" + p.Variant
	}
	return strings.Join([]string{p.Scenario, kind, p.Target.Method, p.Target.Path, strconv.Itoa(p.Target.Nth)}, separator)
}

// ParsePlan reads an ID.
func ParsePlan(id string) (Plan, error) {
	var p Plan
	parts := strings.SplitN(id, separator, 4)
	if len(parts) != 4 {
		return p, fmt.Errorf("reading plan %q: it is not scenario:perturbation:method:path:nth", id)
	}
	kind, variant, _ := strings.Cut(parts[1], "-")
	path, nth, _ := cutLast(parts[3])
	p = Plan{Scenario: parts[0], Perturbation: Perturbation(kind), Variant: variant, Target: Target{Method: parts[2], Path: path}}
	known, there := variants[p.Perturbation]
	if !there {
		return p, fmt.Errorf("reading plan %q: no perturbation is called %q", id, kind)
	}
	if !slices.Contains(known, variant) {
		return p, fmt.Errorf("reading plan %q: %q is not one of the variants %q of %s", id, variant, known, kind)
	}
	var err error
	if p.Target.Nth, err = strconv.Atoi(nth); err != nil {
		return p, fmt.Errorf("reading plan %q: reading which request: %w", id, err)
	}
	// What is left out, or too much, shows when it is put together again.
	if p.ID() != id {
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

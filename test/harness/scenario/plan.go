package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Perturbation is a kind of fault.
type Perturbation string

const (
	// DieAfterCommit kills the replica after the API server has carried out a request and before
	// the answer arrives.
	DieAfterCommit Perturbation = "P1"
	// DieBeforeCommit kills the replica before its request reaches the API server.
	DieBeforeCommit Perturbation = "P2"
	// LoseAnswer cuts the connection after the API server has carried out a request. The replica
	// lives on without the answer.
	LoseAnswer Perturbation = "P3"
	// Refuse answers with an error in place of the API server, which does not see the request. Its
	// variants are the codes.
	Refuse Perturbation = "P4"
	// Elsewhere is no fault: the operator is installed in a namespace of another name, by
	// manifests of its own. It is not derived and is no part of a run.
	Elsewhere Perturbation = "P20"
)

// ManifestsTarget is the method of a target that is an installation's manifests.
const ManifestsTarget = "MANIFESTS"

// codes are the variants of Refuse.
var codes = []int{
	http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// variants has the variants of each perturbation; "" is the perturbation without one.
var variants = map[Perturbation][]string{
	DieAfterCommit:     {""},
	DieBeforeCommit:    {""},
	LoseAnswer:         {""},
	Refuse:             texts(codes),
	DeliverLate:        {""},
	Pause:              {"", VariantReconnect},
	CutLease:           {"", VariantRest},
	Partition:          {VariantLeader, VariantAll, VariantStart},
	Terminate:          {"", VariantStandby, VariantStart, VariantSlow},
	FalseEvidence:      {VariantTerminated, VariantDeleted, VariantReplaced},
	SplitBrain:         {VariantUnelected, VariantUpgrade},
	LateEvents:         {""},
	MissedEvents:       {""},
	LostEvents:         {""},
	StaleStart:         {""},
	StartRace:          append(texts(raceCodes), NoAnswer),
	Elsewhere:          {""},
	EnvironmentChange:  {StripLabels, RemoveChild, Rival, ForeignFinalizer},
	InstallationChange: {FlagChange, RuleChange, WebhookChange, DefinitionChange},
	Hostile:            {""},
	ExternalFails:      append([]string{ExternalDieAfter, ExternalDieBefore, ExternalLose, ExternalSlow}, texts(externalCodes)...),
}

func texts(numbers []int) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// Target is what a fault affects. For most perturbations it is the nth request of the subject with
// this method and path. Other perturbations have a word of their own as the method.
type Target struct {
	Method string `json:"method"`
	// Path has placeholders where it has names of the scenario.
	Path string `json:"path"`
	Nth  int    `json:"nth"`
}

// separator separates the parts of a plan's ID. Paths may contain it: the path starts after the
// third and ends before the last.
const separator = ":"

// Plan is one fault in one run of a scenario.
type Plan struct {
	Scenario     string       `json:"scenario"`
	Perturbation Perturbation `json:"perturbation"`
	// Variant is which of a perturbation's forms it is; "" if it has one only.
	Variant string `json:"variant,omitempty"`
	Target  Target `json:"target"`
}

// ID returns the plan as one word, which means the same in every run.
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

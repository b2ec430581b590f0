package scenario

import (
	"errors"
	"fmt"
	"maps"
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
	ExternalFails: append([]string{ExternalDieAfter, ExternalDieBefore, ExternalLose, ExternalSlow},
		texts(externalCodes)...),
}

// Perturbations returns all perturbations, in order.
func Perturbations() []Perturbation { return slices.Sorted(maps.Keys(variants)) }

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

// Plan is one fault in one run of a scenario, or two.
type Plan struct {
	Scenario     string       `json:"scenario"`
	Perturbation Perturbation `json:"perturbation"`
	// Variant is which of a perturbation's forms it is; "" if it has one only.
	Variant string `json:"variant,omitempty"`
	Target  Target `json:"target"`
	// Second is the fault in the recovery from the first, if there is one.
	Second Second `json:"second,omitzero"`
}

// ID returns the plan as one word, which means the same in every run.
func (p Plan) ID() string {
	id := p.Scenario + separator + faultID(p.Perturbation, p.Variant, p.Target)
	if p.HasSecond() {
		id += "+" + faultID(p.Second.Perturbation, p.Second.Variant, p.Second.Target)
	}
	return id
}

func faultID(p Perturbation, variant string, t Target) string {
	kind := string(p)
	if variant != "" {
		kind += "-" + variant
	}
	return strings.Join([]string{kind, t.Method, t.Path, strconv.Itoa(t.Nth)}, separator)
}

// ParsePlan reads an ID.
func ParsePlan(id string) (Plan, error) {
	p, err := parsePlan(id)
	// What is left out, or too much, shows when it is put together again.
	if err == nil && p.ID() != id {
		err = fmt.Errorf("it should be %q", p.ID())
	}
	if err != nil {
		return p, fmt.Errorf("reading plan %q: %w", id, err)
	}
	return p, nil
}

func parsePlan(id string) (p Plan, err error) {
	first, second := id, ""
	if parts := secondFault.FindStringSubmatch(id); parts != nil {
		first, second = parts[1], parts[2]
	}
	var fault string
	p.Scenario, fault, _ = strings.Cut(first, separator)
	if p.Perturbation, p.Variant, p.Target, err = parseFault(fault); err != nil || second == "" {
		return p, err
	}
	if p.Second.Perturbation, p.Second.Variant, p.Second.Target, err = parseFault(second); err != nil {
		return p, fmt.Errorf("the second fault: %w", err)
	}
	if !p.HasRecovery() || !slices.Contains(inRecovery, p.Second.Perturbation) {
		return p, fmt.Errorf("the first of two faults is one of %q, the second one of %q", recoverable, inRecovery)
	}
	return p, nil
}

// parseFault reads perturbation:method:path:nth.
func parseFault(text string) (p Perturbation, variant string, t Target, err error) {
	parts := strings.SplitN(text, separator, 3)
	if len(parts) != 3 {
		return p, variant, t, errors.New("it is not scenario:perturbation:method:path:nth")
	}
	kind, variant, _ := strings.Cut(parts[0], "-")
	path, nth, _ := cutLast(parts[2])
	p, t = Perturbation(kind), Target{Method: parts[1], Path: path}
	known, there := variants[p]
	if !there {
		return p, variant, t, fmt.Errorf("no perturbation is called %q", kind)
	}
	if !slices.Contains(known, variant) {
		return p, variant, t, fmt.Errorf("%q is not one of the variants %q of %s", variant, known, kind)
	}
	if furtherFault.MatchString(path) {
		return p, variant, t, errors.New("what follows + is no second fault, or a third one")
	}
	if t.Nth, err = strconv.Atoi(nth); err != nil {
		return p, variant, t, fmt.Errorf("reading which request: %w", err)
	}
	return p, variant, t, nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

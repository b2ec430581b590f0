// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"leasehold.dev/test/harness/scenario"
)

// Target is the request or event that a fault affects. For most faults it is the nth request of the
// subject with this method and path. Other faults have another word as the method.
type Target struct {
	Method string `json:"method"`
	// Path has placeholders where it has names of the scenario.
	Path string `json:"path"`
	Nth  int    `json:"nth"`
}

// Plan is one fault in one run of a scenario.
type Plan struct {
	Scenario string             `json:"scenario"`
	Fault    scenario.FaultName `json:"fault"`
	// Variant is which of a fault's forms it is; "" if it has one only.
	Variant string `json:"variant,omitempty"`
	Target  Target `json:"target"`
}

// ID returns the plan as one word, which means the same in every run. A path may contain the
// separator: it is between the third and the last.
func (p Plan) ID() string {
	kind := string(p.Fault)
	if p.Variant != "" {
		kind += "-" + p.Variant
	}
	return strings.Join([]string{p.Scenario, kind, p.Target.Method, p.Target.Path, strconv.Itoa(p.Target.Nth)},
		scenario.Separator)
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
	const beforePath = 3
	parts := strings.Split(id, scenario.Separator)
	last := len(parts) - 1
	if last <= beforePath {
		return p, errors.New("it is not scenario:fault:method:path:nth")
	}
	p.Scenario = parts[0]
	if p.Fault, p.Variant, err = parseForm(parts[1]); err != nil {
		return p, err
	}
	p.Target = Target{Method: parts[2], Path: strings.Join(parts[beforePath:last], scenario.Separator)}
	if p.Target.Nth, err = strconv.Atoi(parts[last]); err != nil {
		return p, fmt.Errorf("reading which request: %w", err)
	}
	return p, nil
}

// parseForm reads the name of a fault, and the variant that may follow it.
func parseForm(text string) (f scenario.FaultName, variant string, err error) {
	if known := specOf(scenario.FaultName(text)); known != nil && known.variants == nil {
		return known.fault, "", nil
	}
	for _, known := range specs {
		variant, found := strings.CutPrefix(text, string(known.fault)+"-")
		if found && slices.Contains(known.variants, variant) {
			return known.fault, variant, nil
		}
		if found || text == string(known.fault) {
			err = fmt.Errorf("%q is not one of the variants %q of %s", variant, known.forms(), known.fault)
		}
	}
	return "", "", cmp.Or(err, fmt.Errorf("no fault is called %q", text))
}

// Describe returns the plan in a sentence.
func (p Plan) Describe() string {
	s, variant, t := specOf(p.Fault), p.Variant, p.Target
	text := cmp.Or(s.texts[variant], s.text)
	if code, err := strconv.Atoi(variant); err == nil {
		variant = fmt.Sprintf("%d (%s)", code, http.StatusText(code))
	}
	target := fmt.Sprintf("%s of %s, number %d of its kind in the run", t.Method, t.Path, t.Nth)
	return strings.NewReplacer("VARIANT", variant, "TARGET", target,
		"COLLECTION", t.Path, "STEP", fmt.Sprintf("step %d of those that do something", t.Nth)).Replace(text)
}

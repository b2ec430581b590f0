package scenario

import "slices"

// Changed is that the operator's installation changes while it runs.
const Changed Perturbation = "P18"

// The variants of Changed: what is changed.
const (
	// FlagChange restarts all replicas with another flag, and then without it.
	FlagChange = "flag"
	// RuleChange takes a right away and gives it back.
	RuleChange = "rule"
	// WebhookChange changes a webhook configuration.
	WebhookChange = "webhook"
	// DefinitionChange changes a CustomResourceDefinition.
	DefinitionChange = "definition"
)

// ChangeTarget is the method of a target that is a change of the installation. Its
// path is the change's name, and its number the step, of those that act, before
// which the change begins.
const ChangeTarget = "CHANGE"

// Change is a change that the subject's installation may see.
type Change struct {
	Name string
	// Kind is one of the variants of Changed.
	Kind string
	// Scenarios are those in which it is tried. Empty: all.
	Scenarios []string
}

// installationChanges are the changes that are about the scenario, each before a step that the random numbers
// choose. A flag is changed where it is known who may do what, if anywhere: what
// replicas do at their start must not take that away.
func installationChanges(d *derivation) []Plan {
	after, claimed := d.actions()
	if len(after) == 0 {
		return nil
	}
	var plans []Plan
	for _, change := range d.runs[0].Changes {
		if len(change.Scenarios) > 0 && !slices.Contains(change.Scenarios, d.scenario.Name) {
			continue
		}
		steps := after
		if change.Kind == FlagChange && len(claimed) > 0 {
			steps = claimed
		}
		nth := steps[d.random.IntN(len(steps))]
		plans = append(plans, d.plan(Changed, change.Kind, Target{Method: ChangeTarget, Path: change.Name, Nth: nth}))
	}
	return plans
}

// actions are the numbers of the steps that act, but for the first, and those of
// them that directly follow an expected access. Attacks are no steps of clean runs.
func (d *derivation) actions() (after, claimed []int) {
	n, claims := 0, false
	for _, step := range d.scenario.Steps {
		if !step.Acts() {
			claims = claims || step.May != nil
			continue
		}
		n++
		if step.Attack != nil {
			continue
		}
		if n > 1 {
			after = append(after, n)
		}
		if claims {
			claimed = append(claimed, n)
		}
		claims = false
	}
	return after, claimed
}

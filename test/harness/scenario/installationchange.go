package scenario

import "slices"

// Changes of the operator's installation at run time.
const (
	// FlagChange restarts all replicas with another flag, and then without it.
	FlagChange Fault = "flag-change"
	// RuleChange removes a right and restores it.
	RuleChange Fault = "rule-change"
	// WebhookChange changes a webhook configuration.
	WebhookChange Fault = "webhook-change"
	// CRDChange changes a CustomResourceDefinition.
	CRDChange Fault = "crd-change"
)

// ChangeTarget is the method of a target that is a change of the installation. The path is the
// change's name. The number counts the steps that act; the change begins before that step.
const ChangeTarget = "CHANGE"

// Change is a possible change of the subject's installation.
type Change struct {
	Name string
	// Fault is the kind of change.
	Fault Fault
	// Scenarios are the names of those in which the change is made. Empty means all.
	Scenarios []string
}

// installationChanges plans each change of the scenario before a step that the seed selects. A
// change of a flag prefers a step after an expected access: restarted replicas must not revoke it.
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
		if change.Fault == FlagChange && len(claimed) > 0 {
			steps = claimed
		}
		var possible []Plan
		for _, nth := range steps {
			possible = append(possible, d.plan(change.Fault, "",
				Target{Method: ChangeTarget, Path: change.Name, Nth: nth}))
		}
		plans = append(plans, d.one(possible))
	}
	return plans
}

// actions returns the numbers of the steps that act, without the first, and of those that follow
// an expected access. Clean runs leave attacks out, so these do not count.
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

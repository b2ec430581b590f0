// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// growthTimeout bounds how long a grown object may take to be ready.
const growthTimeout = 20 * time.Second

// maxGrowths bounds the trials in which what the last refusal named is left out.
const maxGrowths = 3

// grow finds how far the kind's object can be grown: until the API server or a webhook refuses it or
// what the operator makes of it, or it does not become ready. Fields that a refusal names are left
// out in another trial. A kind that cannot grow has no scenario with a change.
func (l *learner) grow(ctx context.Context, prover *run.Prover, k *DraftKind, users []string) error {
	var without []string
	for _, how := range []Growth{GrowAll, GrowGiven} {
		for range maxGrowths {
			if !k.Grow(how, without...) {
				break
			}
			problem, err := l.growthOf(ctx, prover, k, users)
			if err != nil || problem == "" {
				return err
			}
			named := Named(k.Added, problem)
			if len(named) == 0 {
				fmt.Fprintf(l.output, "%s: the sample stays without that: %s\n", k.ChangeName(), problem)
				break
			}
			fmt.Fprintf(l.output, "%s: the sample stays without %s: %s\n", k.ChangeName(), strings.Join(named, ", "), problem)
			without = append(without, named...)
		}
	}
	k.Grown, k.Added = nil, nil
	return nil
}

// growthOf tries the grown object, and returns why it is of no use; "" if it is.
func (l *learner) growthOf(ctx context.Context, prover *run.Prover, k *DraftKind,
	users []string) (string, error) {
	trial, err := l.growthTrial(k)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(l.output, "%s: init added %s to the sample, as the schema allows; "+
		"a clean run shows whether the operator accepts that\n", k.ChangeName(), strings.Join(k.Added, ", "))
	reference, err := l.reference(ctx, prover, trial, 1)
	if refused := (*run.RefusedError)(nil); errors.As(err, &refused) {
		return refused.Error(), nil
	}
	if err != nil {
		return "", err
	}
	return growthProblem(reference.Histories[0], users), nil
}

// growthTrial is the scenario with the change up to the grown object.
func (l *learner) growthTrial(k *DraftKind) (scenario.Scenario, error) {
	text, err := l.draft.Change(k)
	if err != nil {
		return scenario.Scenario{}, err
	}
	s, err := scenario.Parse(text)
	if err != nil {
		return s, err
	}
	last := slices.IndexFunc(s.Steps, func(step scenario.Step) bool { return step.Name == "grown" })
	s.Steps = s.Steps[:last+1]
	for i, step := range s.Steps {
		s.Steps[i].Refused = "" // a refusal ends the trial
		if step.Quiesce != nil {
			step.Quiesce.Within = metav1.Duration{Duration: growthTimeout}
		}
	}
	return s, nil
}

// growthProblem is why a grown object is of no use; "" if it is. A value with which the operator's
// own writes are invalid shows nothing about the operator's work.
func growthProblem(h *history.History, users []string) string {
	for _, r := range h.Requests {
		invalid := r.Code == http.StatusUnprocessableEntity || r.Code == http.StatusBadRequest
		if invalid && r.Effect == history.Refused && slices.Contains(users, r.User) {
			return fmt.Sprintf("the operator cannot use it: %s", r)
		}
	}
	for _, m := range h.Checkpoints {
		if !m.Converged {
			return fmt.Sprintf("at %q it is not ready: %s", m.Name, strings.Join(m.Unmet, ", "))
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/attack"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// attackTarget is the method of a target that is a step with an attack.
const attackTarget = "ATTACK"

var attackFault = spec{
	fault: "attack", family: "attack",
	text:   "a hostile user does step COLLECTION, which clean runs leave out",
	derive: eachAttack, newInjector: func() injector { return &hostileAttack{} },
}

func eachAttack(d *derivation, f scenario.FaultName) []Plan {
	var plans []Plan
	for i, step := range d.scenario.Steps {
		if step.Attack != nil {
			plans = append(plans, d.plan(f, "", Target{Method: attackTarget, Path: step.Name, Nth: i + 1}))
		}
	}
	return plans
}

// hostileAttack lets a hostile user act in the plan's step.
type hostileAttack struct{ holes blackHoles }

func (h *hostileAttack) begin(_ context.Context, a *activeFault) error {
	n := a.plan.Target.Nth - 1
	if n < 0 || n >= len(a.scenario.Steps) || a.scenario.Steps[n].Attack == nil {
		return fmt.Errorf("looking for the attack: step %d of scenario %s is none", n+1, a.scenario.Name)
	}
	h.holes.prover = a.prover
	return nil
}

func (h *hostileAttack) end(context.Context, *activeFault) error { return h.holes.close() }

// attack acts as the hostile user if the step is the plan's attack. A clean run has none.
func (a *activeFault) attack(ctx context.Context, n int, step scenario.Step) error {
	if a == nil {
		return nil
	}
	h, is := a.injector.(*hostileAttack)
	if !is || a.plan.Target.Nth != n+1 {
		return nil
	}
	return h.act(ctx, a, step)
}

// act performs the attack.
func (h *hostileAttack) act(ctx context.Context, a *activeFault, step scenario.Step) error {
	ex := a.execution
	steps, err := ex.attackSteps(ctx, step, &h.holes)
	if err != nil {
		return err
	}
	// Without its user, nothing of the attack is tried.
	if _, err := ex.clientOf(ctx, step); err != nil {
		return err
	}
	touched, err := ex.alteredKeys(step)
	if err != nil {
		return err
	}
	ex.runAttack(ctx, step, steps, touched)
	return nil
}

// alteredKeys returns the key of the object that the attack alters, if it alters one.
func (ex *execution) alteredKeys(step scenario.Step) ([]history.Key, error) {
	if step.Attack.Object == nil {
		return nil, nil
	}
	key, err := ex.prover.keyOf(*step.Attack.Object)
	return []history.Key{key}, err
}

// attackSteps generates the steps of an attack from the objects as they are now.
func (ex *execution) attackSteps(ctx context.Context, step scenario.Step, holes *blackHoles) ([]scenario.Step, error) {
	in := attack.Input{Attack: *step.Attack}
	var err error
	if in.Name == attack.DeadEndpoint {
		n := in.Endpoints
		if n == 0 {
			n = max(1, in.Count)
		}
		if in.BlackHoles, err = holes.open(ctx, n); err != nil {
			return nil, err
		}
	}
	for _, of := range []struct {
		ref *scenario.Ref
		to  **unstructured.Unstructured
	}{{in.Object, &in.Victim}, {in.Attack.Owner, &in.Owner}} {
		if of.ref == nil {
			continue
		}
		o := objectOf(*of.ref)
		if err := ex.prover.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return nil, fmt.Errorf("reading what is attacked: %w", err)
		}
		*of.to = o
	}
	return attack.Steps(in)
}

// runAttack performs the steps of an attack in order until the run ends. A refusal by the API
// server is a defence that works, and no error.
func (ex *execution) runAttack(ctx context.Context, step scenario.Step, steps []scenario.Step, touched []history.Key) {
	began, accepted := ex.activeFault.now(), 0
	var last error
	for _, s := range steps {
		if ctx.Err() != nil {
			break
		}
		s.As = step.As
		if err := ex.perform(ctx, s); err == nil {
			accepted++
		} else {
			last = err
		}
	}
	ex.recordAttack(step, began, accepted, len(steps), last, touched)
}

// recordAttack records what the API server accepted. A refusal of everything is evidence only if
// the step expects it.
func (ex *execution) recordAttack(step scenario.Step, began time.Time, accepted, of int, last error,
	touched []history.Key) {
	a, refused := ex.activeFault, step.Refused != "" && isRefusal(last)
	if accepted == 0 && !refused {
		a.setVoidReason("nothing of the attack was accepted: %v", last)
		return
	}
	if step.Refused == scenario.MustRefuse {
		ex.decisions = append(ex.decisions, history.Decision{Step: step.Name, Allowed: accepted > 0, At: a.now(),
			Action: fmt.Sprintf("%s may do %s", step.As, step.Attack.Name)})
	}
	ended := a.now()
	detail := fmt.Sprintf("%s by %s: %d of %d accepted in %s, %.0f a second", step.Attack.Name,
		cmp.Or(step.As, "an administrator"), accepted, of, ended.Sub(began).Round(time.Millisecond),
		float64(accepted)/ended.Sub(began).Seconds())
	if last != nil {
		detail += fmt.Sprintf("; refused: %.200s", last.Error())
	}
	a.record(history.FaultRecord{Began: began, Ended: ended, Attack: true, Touched: touched, Detail: detail})
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// attackTarget is the method of a target that is a step with an attack.
const attackTarget = "ATTACK"

var attackFault = spec{
	fault: "attack", family: "attack",
	text:   "a hostile user performs step COLLECTION, which runs without faults skip",
	derive: eachAttack, injector: hostileAttack{},
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
type hostileAttack struct{}

func (hostileAttack) begin(_ context.Context, a *activeFault) error {
	n := a.plan.Target.Nth - 1
	if n < 0 || n >= len(a.scenario.Steps) || a.scenario.Steps[n].Attack == nil {
		return fmt.Errorf("looking for the attack: step %d of scenario %s is none", n+1, a.scenario.Name)
	}
	return nil
}

// attack acts as the hostile user if the step is the plan's attack. A clean run has none.
func (ex *execution) attack(ctx context.Context, n int, step scenario.Step) error {
	a := ex.activeFault
	if a == nil || a.plan.Fault != attackFault.fault || a.plan.Target.Nth != n+1 {
		return nil
	}
	holes := &blackHoles{prover: ex.prover}
	a.atEnd(func(context.Context) error { return holes.close() })
	steps, err := ex.attackSteps(ctx, *step.Attack, holes)
	if err != nil {
		return err
	}
	// Without its user, nothing of the attack is tried.
	if _, err := ex.clientOf(ctx, step); err != nil {
		return err
	}
	var touched []history.Key
	if step.Attack.Patch != nil {
		key, err := ex.prover.keyOf(step.Attack.Patch.Object)
		if err != nil {
			return err
		}
		touched = []history.Key{key}
	}
	ex.runAttack(ctx, step, steps, touched)
	return nil
}

// endpointPlaceholder is a URL that accepts connections and never answers.
const endpointPlaceholder = "$(endpoint)"

// attackSteps fills the placeholders of an attack, once for each of its writes.
func (ex *execution) attackSteps(ctx context.Context, a scenario.Attack, holes *blackHoles) ([]scenario.Step, error) {
	text, err := json.Marshal(scenario.Step{Apply: a.Apply, Patch: a.Patch})
	if err != nil {
		return nil, fmt.Errorf("encoding the attack: %w", err)
	}
	count := max(1, a.Count)
	var urls []string
	if strings.Contains(string(text), endpointPlaceholder) {
		if urls, err = holes.open(ctx, cmp.Or(a.Endpoints, count)); err != nil {
			return nil, err
		}
	}
	var owner []string
	if a.Owner != nil {
		o := objectOf(*a.Owner)
		if err := ex.prover.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return nil, fmt.Errorf("reading the owner that the attack names: %w", err)
		}
		owner = []string{"$(uid)", string(o.GetUID())}
	}
	steps := make([]scenario.Step, count)
	for i := range steps {
		pairs := append([]string{"$(index)", strconv.Itoa(i)}, owner...)
		if len(urls) > 0 {
			pairs = append(pairs, endpointPlaceholder, urls[i%len(urls)])
		}
		if err := json.Unmarshal([]byte(strings.NewReplacer(pairs...).Replace(string(text))), &steps[i]); err != nil {
			return nil, fmt.Errorf("filling the attack: %w", err)
		}
	}
	return steps, nil
}

// runAttack performs the steps of an attack in order until the run ends, and records what the API
// server accepted. A refusal is a defence that works, and no error. A refusal of everything is
// evidence only if the step expects it.
func (ex *execution) runAttack(ctx context.Context, step scenario.Step, steps []scenario.Step, touched []history.Key) {
	a, accepted := ex.activeFault, 0
	began := a.now()
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
	if accepted == 0 && (step.Refused == "" || !isRefusal(last)) {
		a.setVoidReason("nothing of the attack was accepted: %v", last)
		return
	}
	if step.Refused == scenario.MustRefuse {
		ex.decide(step, fmt.Sprintf("%s may do %s", step.As, step.Name), false, accepted > 0)
	}
	ended := a.now()
	detail := fmt.Sprintf("%s by %s: %d of %d accepted in %s, %.0f a second", step.Name,
		cmp.Or(step.As, "an administrator"), accepted, len(steps), ended.Sub(began).Round(time.Millisecond),
		float64(accepted)/ended.Sub(began).Seconds())
	if last != nil {
		detail += fmt.Sprintf("; refused: %.200s", last.Error())
	}
	a.record(history.FaultRecord{Began: began, Ended: ended, Attack: true, Touched: touched, Detail: detail})
}

// keyOf returns the key of an object in a history.
func (p *Prover) keyOf(r scenario.Ref) (history.Key, error) {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	mapping, err := p.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return history.Key{}, fmt.Errorf("looking for the resource of %s: %w", r, err)
	}
	return history.Key{
		Resource:  history.Resource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource},
		Namespace: r.Namespace, Name: r.Name,
	}, nil
}

// blackHoles are URLs of one attack that accept connections and never answer. All replicas reach them.
type blackHoles struct {
	prover *Prover
	// Nothing takes a connection from all: the kernel accepts it, and resets it when they are closed.
	all []net.Listener
}

// open opens n more and returns their URLs.
func (h *blackHoles) open(ctx context.Context, n int) ([]string, error) {
	var urls []string
	for range n {
		hole, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("opening a black hole: %w", err)
		}
		h.all = append(h.all, hole)
		if err := h.prover.reach(hole.Addr().String()); err != nil {
			return nil, err
		}
		urls = append(urls, "http://"+hole.Addr().String())
	}
	return urls, nil
}

func (h *blackHoles) close() error {
	var errs []error
	for _, hole := range h.all {
		h.prover.unreach(hole.Addr().String())
		errs = append(errs, hole.Close())
	}
	h.all = nil
	return errors.Join(errs...)
}

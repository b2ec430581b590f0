package run

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"leasehold.dev/test/harness/fault"
)

// The faults that happen to one write of the operator: P1 to P4.

// dieAt kills the replica whose request comes to a point of its way.
func dieAt(at fault.Point) func(context.Context, *armed) error {
	return func(ctx context.Context, a *armed) error {
		for _, r := range a.prover.replicas {
			gate := fault.NewGate(at)
			a.inject(r, a.target(), gate)
			a.all.Go(func() { a.killAt(ctx, gate, r) })
		}
		return nil
	}
}

// killAt kills the replica whose request comes to the gate. The request's
// connection is cut, so what was not forwarded never will be.
func (a *armed) killAt(ctx context.Context, gate *fault.Gate, r *replica) {
	held, err := gate.Wait(ctx)
	if err != nil {
		return // the run is over and no such request came
	}
	kills := false
	a.once.Do(func() { kills = true })
	if !kills {
		held.Release()
		return
	}
	a.killWith(r, held)
}

// killWith kills a replica and cuts its request.
func (a *armed) killWith(r *replica, held *fault.Held) {
	r.kill()
	held.Cut()
	a.mu.Lock()
	a.spoiled = append(a.spoiled, spoiled{r, held.Request.ID})
	a.mu.Unlock()
	a.heal() // the replica that takes over is left in peace
}

func loseAnswer(_ context.Context, a *armed) error {
	for _, r := range a.prover.replicas {
		a.inject(r, a.target(), fault.Cut{At: fault.AfterAnswer})
	}
	return nil
}

func refuse(_ context.Context, a *armed) error {
	answer, err := refusalOf(a.plan.Variant)
	if err != nil {
		return err
	}
	for _, r := range a.prover.replicas {
		a.inject(r, a.target(), answer)
	}
	return nil
}

// refusalOf is the answer of a variant that is a code.
func refusalOf(variant string) (fault.Answer, error) {
	code, err := strconv.Atoi(variant)
	if err != nil {
		return fault.Answer{}, fmt.Errorf("reading the code %q: %w", variant, err)
	}
	return fault.Refusal(code)
}

// A write that the API server refused anyway is no lost answer and no death after a
// commit.

func (a *armed) died(r *replica, request fault.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.spoiled, spoiled{r, request.ID})
}

func diedAfterCommit(a *armed, r *replica, request fault.Request) bool {
	return a.died(r, request) && answerWasLost(a, r, request)
}

func diedBeforeCommit(a *armed, r *replica, request fault.Request) bool {
	return a.died(r, request) && wasNotForwarded(a, r, request)
}

func answerWasLost(_ *armed, _ *replica, request fault.Request) bool {
	return request.Committed() && request.Delivered.IsZero()
}

func wasNotForwarded(_ *armed, _ *replica, request fault.Request) bool {
	return request.Forwarded.IsZero()
}

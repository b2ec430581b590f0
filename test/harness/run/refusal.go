package run

import (
	"context"
	"fmt"
	"strconv"

	"leasehold.dev/test/harness/fault"
)

// refusal answers the request with an error code instead of forwarding it.
type refusal struct{}

func (refusal) inject(_ context.Context, a *activeFault) error {
	answer, err := refusalOf(a.plan.Variant)
	if err != nil {
		return err
	}
	for _, r := range a.prover.replicas {
		a.inject(r, a.target(), answer)
	}
	return nil
}

// refusalOf returns the answer with the code that is the plan's variant.
func refusalOf(variant string) (fault.Answer, error) {
	code, err := strconv.Atoi(variant)
	if err != nil {
		return fault.Answer{}, fmt.Errorf("reading the code %q: %w", variant, err)
	}
	return fault.Refusal(code)
}

func (refusal) happened(_ *activeFault, _ *replica, request fault.Request) bool {
	return wasNotForwarded(request)
}

func wasNotForwarded(request fault.Request) bool {
	return request.Forwarded.IsZero()
}

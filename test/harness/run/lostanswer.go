package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
)

// lostAnswer cuts the connection when the API server has answered the request.
type lostAnswer struct{}

func (lostAnswer) inject(_ context.Context, a *activeFault) error {
	for _, r := range a.prover.replicas {
		a.inject(r, a.target(), fault.Cut{At: fault.AfterAnswer})
	}
	return nil
}

func (lostAnswer) happened(_ *activeFault, _ *replica, request fault.Request) bool {
	return answerWasLost(request)
}

// answerWasLost reports whether the API server carried the request out and its answer did not
// arrive. A refusal that is lost counts as nothing.
func answerWasLost(request fault.Request) bool {
	return request.Committed() && request.Delivered.IsZero()
}

package attack

import (
	"errors"

	"leasehold.dev/test/harness/scenario"
)

// DeadEndpoint makes Count objects with endpoints that accept connections and never
// answer: each occupies a worker that waits for the answer.
const DeadEndpoint = "dead-endpoints"

func deadEndpoints(in Input) ([]scenario.Step, error) {
	if len(in.BlackHoles) == 0 || !uses(in.Template, endpoint) || !uses(name(in), index) {
		return nil, errors.New("it needs black holes, a template with " + endpoint + " and a name with " + index)
	}
	return filled(in)
}

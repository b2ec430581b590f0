package attack

import (
	"errors"

	"leasehold.dev/test/harness/scenario"
)

// HighChurn changes one object Count times: each change is work for an operator, and
// what it remembers of each is never needed again.
const HighChurn = "high-churn"

func highChurn(in Input) ([]scenario.Step, error) {
	if uses(name(in), index) || !uses(in.Template, index) {
		return nil, errors.New("it needs a template with " + index + ", but not in the name")
	}
	return filled(in)
}

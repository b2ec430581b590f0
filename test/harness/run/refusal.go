package run

import (
	"fmt"
	"strconv"

	"leasehold.dev/test/harness/fault"
)

// refuse answers the request with the plan's code instead of forwarding it.
func refuse(a *activeFault) (fault.Fault, error) {
	code, err := a.code()
	if err != nil {
		return nil, err
	}
	return fault.Refusal(code)
}

// code returns the code that is the plan's variant.
func (a *activeFault) code() (int, error) {
	code, err := strconv.Atoi(a.plan.Variant)
	if err != nil {
		return 0, fmt.Errorf("reading the code %q: %w", a.plan.Variant, err)
	}
	return code, nil
}

func wasNotForwarded(request fault.Request) bool {
	return request.Forwarded.IsZero()
}

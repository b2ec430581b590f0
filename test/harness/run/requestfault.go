// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
)

// requestFault applies a fault to the plan's request. The journals of the proxies prove that it
// happened; other faults record it themselves.
type requestFault struct {
	newFault func(a *activeFault) (fault.Fault, error)
	// happened reports whether the fault had its effect on a request that met it.
	happened func(fault.ProxiedRequest) bool
}

func (f requestFault) begin(_ context.Context, a *activeFault) error {
	proxies, match, err := a.route()
	if err != nil {
		return err
	}
	met, err := f.newFault(a)
	if err != nil {
		return err
	}
	for _, proxy := range proxies {
		a.inject(proxy, match, met)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
)

// requestFault applies a fault to the plan's request.
type requestFault struct {
	newFault func(a *activeFault) (fault.Fault, error)
	evidence func(fault.ProxiedRequest) bool
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

func (f requestFault) happened(request fault.ProxiedRequest) bool { return f.evidence(request) }

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"leasehold.dev/test/harness/fault"
)

// requestFault applies a fault to the plan's request to the API server.
type requestFault struct {
	newFault func(a *activeFault) (fault.Fault, error)
	evidence func(fault.ProxiedRequest) bool
}

func (f requestFault) begin(_ context.Context, a *activeFault) error {
	met, err := f.newFault(a)
	if err != nil {
		return err
	}
	for _, r := range a.prover.running() {
		a.inject(r.proxy, a.target(), met)
	}
	return nil
}

func (f requestFault) happened(request fault.ProxiedRequest) bool { return f.evidence(request) }

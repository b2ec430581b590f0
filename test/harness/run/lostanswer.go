// SPDX-License-Identifier: Apache-2.0

package run

import (
	"leasehold.dev/test/harness/fault"
)

var lostResponse = spec{
	fault: "lost-response", family: "lost-response",
	text:   "the API server carries out a replica's TARGET, and the answer is lost on its way; the process lives on",
	derive: eachWrite, newInjector: stateless(requestFault{cutAnswer, answerWasLost}),
}

func cutAnswer(*activeFault) (fault.Fault, error) { return fault.Cut{At: fault.AfterAnswer}, nil }

// answerWasLost reports whether the API server carried the request out and its answer did not
// arrive. A refusal that is lost counts as nothing.
func answerWasLost(request fault.ProxiedRequest) bool {
	return request.Committed() && request.Delivered.IsZero()
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"leasehold.dev/test/harness/fault"
)

var lostResponse = spec{
	fault: "lost-response", family: "lost-response",
	text:   "the API server carries out a replica's TARGET, and the response is lost; the process keeps running",
	derive: eachWrite, injector: requestFault{cutAnswer, answerWasLost},
}

func cutAnswer(*activeFault) (fault.Fault, error) { return fault.Cut{At: fault.AfterAnswer}, nil }

// answerWasLost reports whether a request was answered and the answer did not arrive. The loss of a
// refusal counts for a read only: for a change the plan needs one that was made.
func answerWasLost(request fault.ProxiedRequest) bool {
	return !request.Answered.IsZero() && request.Delivered.IsZero() && (request.Committed() || !request.Mutating())
}

// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"fmt"
	"slices"
	"time"

	"leasehold.dev/test/harness/history"
)

// observing is longer than operators usually pause before they look or try again, which is 10 s. A
// pause shorter than shortest is one between two writes of the same work.
const observing, shortest = 11 * time.Second, 3 * time.Second

// learnPause finds how long the operator paused between two writes for the kind's object: it looks
// again at times, or waits before it tries again. Only a longer silence shows that it is done.
func (k *DraftKind) learnPause(runs []run, users []string, lease history.Key) {
	for _, r := range runs {
		if len(r.history.Checkpoints) == 0 || r.history.Checkpoints[0].Acted.IsZero() {
			continue
		}
		made := r.history.Checkpoints[0]
		last, longest := made.Acted, time.Duration(0)
		for _, q := range r.history.Requests {
			if q.Done() && slices.Contains(users, q.User) && q.Key != lease && !slices.Contains(events, q.Resource) &&
				q.Received.After(last) && q.Received.Before(made.Ended) {
				last, longest = q.Received, max(longest, q.Received.Sub(last))
			}
		}
		if made.Began.Sub(last) < longest { // it may go on like that
			k.Pause, k.Restless = 0, k.Until == untilExists || k.Until == untilCurrent
			if k.Restless {
				k.Guesses = append(k.Guesses, fmt.Sprintf("the operator wrote again and again, the last time %s after the sample: it is never "+
					"done, and states are not compared", last.Sub(made.Acted).Round(time.Second)))
			}
			return
		}
		k.Pause = max(k.Pause, longest)
	}
	if k.Pause < shortest {
		k.Pause = 0
		return
	}
	k.Guesses = append(k.Guesses, fmt.Sprintf("the operator paused for %s between two writes, so it is done only after a longer silence",
		k.Pause.Round(time.Second)))
}

// writeIdle writes the silence after which the operator is done, if it is longer than that of all
// checkpoints, or how long to wait in vain.
func (k *DraftKind) writeIdle(w *writer) {
	switch {
	case k.Pause > 0:
		w.line("    idle: %s", (k.Pause + 2*time.Second).Round(time.Second))
	case k.Restless:
		w.line("    within: 20s")
	}
}

// atRestOnly are the promises that compare states in which the operator is done.
var atRestOnly = []string{"end-state", "single-lifecycle", "quiescence"}

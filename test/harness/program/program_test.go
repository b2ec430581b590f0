// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"flag"
	"testing"
)

func TestExitCode(t *testing.T) {
	errFound := errors.New("not all has held")
	undone := Undone(errors.New("no control plane"))
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"Held":    {nil, 0},
		"AllDone": {Undone(nil), 0},
		"Help":    {flag.ErrHelp, 0},
		"Found":   {errFound, 1},
		"Undone":  {undone, 2},
		// what was found does not excuse the rest, and what was not tried has not held
		"FoundSoFar":   {errors.Join(undone, errFound), 2},
		"NoSuchFlag":   {errors.New("a flag that there is not"), 2},
		"FoundAndMore": {errors.Join(errFound, errors.New("more of it")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(tc.err, errFound); got != tc.want {
				t.Errorf("ExitCode(%v) = %d, want %d", tc.err, got, tc.want)
			}
		})
	}
}

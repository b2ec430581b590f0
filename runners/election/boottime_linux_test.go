// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// No test can suspend the machine. A time namespace moves the clock that counts suspended time, and no other.
func TestSinceBootCountsSuspendedTime(t *testing.T) {
	const inNamespace, day = "ELECTION_TEST_TIME_NAMESPACE", 24 * time.Hour
	if os.Getenv(inNamespace) != "" {
		fmt.Fprintln(os.Stdout, int64(SinceBoot()))
		os.Exit(0)
	}
	before := SinceBoot()
	process := exec.CommandContext(t.Context(), "unshare", "--user", "--time", "--boottime",
		fmt.Sprint(day.Seconds()), os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), inNamespace+"=yes")
	out, err := process.Output()
	if err != nil {
		t.Skipf("this system makes no time namespace: %v", err)
	}
	var moved time.Duration
	if _, err := fmt.Sscan(string(out), &moved); err != nil || moved < before+day {
		t.Errorf("SinceBoot() = %s a day after %s, by the clock that counts suspended time (%v)", moved, before, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package election

import (
	"time"

	"k8s.io/utils/clock"
)

var started = clock.RealClock{}.Now()

// SinceBoot is the time since the process started. On some systems it stands still while the
// machine is suspended.
func SinceBoot() time.Duration { return clock.RealClock{}.Since(started) }

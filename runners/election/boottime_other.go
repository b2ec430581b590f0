// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package election

import (
	"time"

	"k8s.io/utils/clock"
)

var started = clock.RealClock{}.Now()

// SinceBoot returns the time since the process started. On some systems this clock does not advance
// while the machine is suspended.
func SinceBoot() time.Duration { return clock.RealClock{}.Since(started) }

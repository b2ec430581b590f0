// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"leasehold.dev/test/harness/controlplane"
)

// version has all versions that the programs built by prove depend on, as a key for a cache of them.
func version() string {
	own := "(devel)"
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		own = build.Main.Version
	}
	kubernetes, _ := controlplane.Pinned() // a test reads the pins, which are embedded
	return fmt.Sprintf("%s (Kubernetes %s, %s, %s/%s)", own, kubernetes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

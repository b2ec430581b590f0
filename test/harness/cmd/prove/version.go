package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"leasehold.dev/test/harness/controlplane"
)

// version has all that the programs which prove builds depend on, so it is a key for a cache of them.
func version() string {
	own := "(devel)"
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		own = build.Main.Version
	}
	kubernetes, _ := controlplane.Pinned() // a test reads the pins, which are embedded
	return fmt.Sprintf("%s (Kubernetes %s, %s, %s/%s)", own, kubernetes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

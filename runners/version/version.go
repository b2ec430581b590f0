// SPDX-License-Identifier: Apache-2.0

// Package version reports the version and the commit that a program was built from. The Go command
// stores them in the binary. A tagged commit has its tag as version, any other commit a pseudo-version.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Info describes a build.
type Info struct {
	Version   string // as in v0.1.0, "(devel)" for a build outside a checkout
	Revision  string // of the commit, "unknown" for a build outside a checkout
	GoVersion string // as in go1.26.0
	Platform  string // as in linux/amd64
}

// Get returns the build information of the running program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return from(build)
}

func from(build *debug.BuildInfo) Info {
	i := Info{Version: cmp.Or(build.Main.Version, "(devel)"), Revision: "unknown", GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			i.Revision = setting.Value
		}
	}
	return i
}

// Line returns the output of `program --version`.
func (i Info) Line(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s, %s)", program, i.Version, i.Revision, i.GoVersion, i.Platform)
}

// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestFromBuildInfo(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for name, tc := range map[string]struct {
		build debug.BuildInfo
		want  string
	}{
		"TaggedCommit": {
			debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "c3f5a0a"}, {Key: "vcs.modified", Value: "false"}}},
			"manager v0.1.0 (commit c3f5a0a, ",
		},
		"ChangedFiles": {
			debug.BuildInfo{Main: debug.Module{Version: "v0.1.1-0.20261122172319-c3f5a0ab34c5+dirty"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "c3f5a0a"}}},
			"manager v0.1.1-0.20261122172319-c3f5a0ab34c5+dirty (commit c3f5a0a, ",
		},
		"NoCheckout":  {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "manager (devel) (commit unknown, "},
		"NoBuildInfo": {debug.BuildInfo{}, "manager (devel) (commit unknown, "},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.want + runtime.Version() + ", " + platform + ")"
			if got := from(&tc.build).Line("manager"); got != want {
				t.Errorf("Line() = %q, want %q", got, want)
			}
		})
	}
}

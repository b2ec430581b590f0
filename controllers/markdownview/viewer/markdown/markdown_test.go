// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"strings"
	"testing"
)

func TestLocalFile(t *testing.T) {
	for destination, want := range map[string]string{
		"a.md":                     "a.md",
		"./a.md":                   "a.md",
		"././a.md#part":            "a.md",
		"a.md?x=y":                 "a.md",
		"x/../a.md":                "a.md",
		"a%2Db.md":                 "a-b.md",
		"sub/a.md":                 "sub/a.md",
		"../a.md":                  "../a.md",
		"x/../../a.md":             "../a.md",
		"":                         "",
		"#part":                    "",
		"?x":                       "",
		"a.txt":                    "",
		"a.MD":                     "",
		"/a.md":                    "",
		"//host/a.md":              "",
		"https://example.com/a.md": "",
		"mailto:a@b.md":            "",
		"javascript:a.md":          "",
		"a%ZZ.md":                  "",
		"a.md/":                    "",
	} {
		if got := LocalFile(destination); got != want {
			t.Errorf("LocalFile(%q) = %q, want %q", destination, got, want)
		}
	}
}

func TestIsFileName(t *testing.T) {
	for name, want := range map[string]bool{
		"a.md": true, "_a.b-c.md": true, SummaryName: true, "0.md": true, strings.Repeat("x", 250) + ".md": true,
		".md": false, "": false, "a": false, "..md": false, ".a.md": false, "-a.md": false, "a/b.md": false, "../a.md": false,
		"a.md\n": false, "ä.md": false, "a.MD": false, strings.Repeat("x", 251) + ".md": false,
	} {
		if got := IsFileName(name); got != want {
			t.Errorf("IsFileName(%q) = %t, want %t", name, got, want)
		}
	}
}

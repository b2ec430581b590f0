// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os/exec"
	"testing"
)

func TestQuote_KeepsOneWord(t *testing.T) {
	for s, want := range map[string]string{
		"/plain/path-1.0_x,y=z":           "/plain/path-1.0_x,y=z",
		"":                                "''",
		"a b":                             "'a b'",
		"*":                               "'*'",
		"a\nb":                            "'a\nb'",
		`it's a "path" $HOME \ ~ # [x] ;`: `'it'\''s a "path" $HOME \ ~ # [x] ;'`,
	} {
		if got := Quote(s); got != want {
			t.Errorf("Quote(%q) is %s, want %s", s, got, want)
		}
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("a shell reads %q as %q, error %v", s, out, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package program

import (
	"regexp"
	"strings"
)

// plain words mean the same to a shell with and without quotes.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Quote makes one word of s for a shell, without quotes if it needs none.
func Quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

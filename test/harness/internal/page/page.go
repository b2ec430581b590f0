// SPDX-License-Identifier: Apache-2.0

// Package page compares parts of documents with what tests derive from the code.
package page

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Hold compares the text between two marks of a file with what it has to be, or rewrites it.
func Hold(t *testing.T, file, begin, end, want string, rewrite bool) {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	before, rest, begun := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	g.Expect(begun && ended).To(BeTrue(), "%s has no marks", file)
	if rewrite {
		g.Expect(os.WriteFile(file, []byte(before+begin+want+end+after), 0o600)).To(Succeed())
		return
	}
	g.Expect(have).To(Equal(want), "%s: run go test with -update", file)
}

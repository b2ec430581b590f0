// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/internal/tree"
)

// A patch applies as a whole or is an error: an unpatched mutant would count as survived.
func TestPatchChangesTheCopy(t *testing.T) {
	g := NewWithT(t)
	from, to := t.TempDir(), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(from, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	write("file", "right\n")
	write("bin/manager", "big")
	write("test/bin/small", "small")
	file := write("test/mutants/patches/m.patch", "class: a\n\n--- a/file\n+++ b/file\n@@ -1,1 +1,1 @@\n-right\n+wrong\n")
	g.Expect(tree.Copy(from, to)).To(Succeed())
	g.Expect(filepath.Join(to, "bin")).NotTo(BeADirectory())
	g.Expect(filepath.Join(to, "test", "bin", "small")).To(BeARegularFile())
	g.Expect(tree.Check(t.Context(), to, file)).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(to, "file"))).To(BeEquivalentTo("right\n"))
	g.Expect(tree.Patch(t.Context(), to, file)).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(to, "file"))).To(BeEquivalentTo("wrong\n"))
	g.Expect(os.ReadFile(filepath.Join(from, "file"))).To(BeEquivalentTo("right\n"))
	g.Expect(tree.Patch(t.Context(), to, file)).To(MatchError(ContainSubstring("patch does not apply")))
	g.Expect(tree.Check(t.Context(), to, file)).To(MatchError(ContainSubstring("patch does not apply")))
}

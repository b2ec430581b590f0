// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The modules resolve, build and test under another path, and have no difference after the way back.
func TestSlowRenameModule(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "clone")
	run := func(in, name string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = filepath.Join(dir, in)
		command.Env = append(os.Environ(), "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
			"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
		output, err := command.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, args, output)
		return string(output)
	}
	clone := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--shared", "..", dir)
	g.Expect(clone.Run()).To(Succeed())
	script, err := os.ReadFile("rename-module.sh")
	g.Expect(err).NotTo(HaveOccurred())
	copied := filepath.Join(dir, "hack", "rename-module.sh") // the one of this checkout
	g.Expect(os.WriteFile(copied, script, 0o700)).To(Succeed())
	if run("", "git", "status", "--porcelain") != "" {
		run("", "git", "commit", "--quiet", "--all", "--message=The script")
	}
	before := strings.TrimSpace(run("", "git", "rev-parse", "HEAD"))

	run("", "hack/rename-module.sh", "example.com/renamed")
	for _, module := range []string{"", "api", "hack", "runners/election", "test", "test/harness", "test/harness/fault", "hack/gitops"} {
		packages := run(module, "env", "GOWORK=off", "go", "list", "-deps", "-test", "./...")
		g.Expect(packages).To(ContainSubstring("example.com/renamed"))
		g.Expect(packages).NotTo(MatchRegexp(`(?m)^leasehold\.dev`), module)
	}
	run("", "go", "build", "./api/...")
	run("test/harness", "go", "test", "./program")

	run("", "hack/rename-module.sh", "leasehold.dev")
	g.Expect(run("", "git", "diff", "--stat", before)).To(BeEmpty())
}

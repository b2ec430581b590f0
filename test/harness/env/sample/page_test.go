// SPDX-License-Identifier: Apache-2.0

// Package sample has the suite that docs/go.md begins with.
package sample

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestMain builds the archiver, unless the slow tests, which need it, are skipped.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.skip").Value.String() != "^TestSlow" {
		build := exec.Command("go", "build", "-o", "../../../../bin/archiver", ".")
		build.Dir = "../../testdata/archiver"
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the archiver: %v\n%s", err, output)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// The page shows the file that runs here, with the paths of a project as kubebuilder lays it out.
func TestPage_ShowsTheSuite(t *testing.T) {
	g := NewWithT(t)
	file, err := os.ReadFile("operator_test.go")
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile("../../docs/go.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, body, _ := strings.Cut(string(file), "\n\n") // without the licence
	body = strings.NewReplacer("TestSlow", "Test", "../../testdata/archiver/config", "../config",
		"../../../../bin/archiver", "../bin/manager").Replace(body)
	g.Expect(string(page)).To(ContainSubstring("```go\n" + body + "```"))
}

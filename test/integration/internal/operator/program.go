// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// Manager returns the path of the operator's program.
func Manager() string {
	GinkgoHelper()
	return program("manager", "leasehold.dev")
}

// Viewer returns the path of the page server's program.
func Viewer() string {
	GinkgoHelper()
	return program("viewer", "leasehold.dev/controllers/markdownview/viewer")
}

// program returns a program in the folder $PROGRAMS, which make builds for all suites. Without the
// variable it builds the program.
func program(name, importPath string) string {
	GinkgoHelper()
	if folder := os.Getenv("PROGRAMS"); folder != "" {
		return filepath.Join(folder, name)
	}
	built, err := gexec.Build(importPath)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
	return built
}

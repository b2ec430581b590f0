// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// After a change of the lines that a mutant changes, the mutant must be updated. A wrong name of a
// scenario would otherwise fail only after half an hour.
func TestMutants_FitTheTree(t *testing.T) {
	NewWithT(t).Expect(check(t.Context(), filepath.Join("..", ".."), filepath.Join("test", "mutants"),
		filepath.Join("test", "prove", "subject.yaml"))).To(Succeed())
}

func TestMutants_ChangeTheOperatorAlone(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join("patches", "*.patch"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	changes := regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for _, changed := range changes.FindAllStringSubmatch(string(text), -1) {
			g.Expect(changed[1]).To(MatchRegexp(`^((api|controllers|runners|config)/.+|[a-z]+\.go)$`),
				"%s is the operator's mistake, not ours", file)
			g.Expect(changed[1]).NotTo(HaveSuffix("_test.go"), file)
		}
	}
}

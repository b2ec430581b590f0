// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestVersion(t *testing.T) {
	const module = "k8s.io/kubernetes"
	mod := "require (\n\tk8s.io/kubernetes v1.36.3\n\tk8s.io/kubernetes-csi v1.0.0 // indirect\n)\nreplace k8s.io/kubernetes => ../k\n"
	g := NewWithT(t)
	g.Expect(Version([]byte(mod), module)).To(Equal("v1.36.3"))
	g.Expect(Version([]byte("module x\n"), module)).Error().To(HaveOccurred())
}

func TestLDFlagsStampTheVersion(t *testing.T) {
	NewWithT(t).Expect(ldFlags("v1.36.3")).To(And(ContainSubstring("version.gitVersion=v1.36.3"),
		ContainSubstring("version.gitMajor=1"), ContainSubstring("version.gitMinor=36")))
}

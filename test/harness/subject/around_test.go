// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAround_ProgramsGetTheirAddresses(t *testing.T) {
	g := NewWithT(t)
	f := &File{dir: "/there", Node: &NodeSpec{Images: map[string]ProgramSpec{"page:1": {
		Binary: "bin/page", Args: []string{"--listen=127.0.0.1:{port}", "--dir={/data}", "{/other}"},
	}}}}
	program := f.nodeOptions().Images["page:1"]
	g.Expect(program.Binary).To(Equal(filepath.FromSlash("/there/bin/page")))
	g.Expect(program.Args(8080, map[string]string{"/data": "/tmp/data"})).To(Equal(
		[]string{"--listen=127.0.0.1:8080", "--dir=/tmp/data", "{/other}"}))
}

func TestAround_RequiresNames(t *testing.T) {
	g := NewWithT(t)
	f := &File{External: &ExternalSpec{}, Node: &NodeSpec{Images: map[string]ProgramSpec{"page:1": {}}}}
	err := f.Validate()
	g.Expect(err).To(MatchError(ContainSubstring("external: say which system; there is s3")))
	g.Expect(err).To(MatchError(ContainSubstring("node.images[page:1].binary")))
	f = &File{External: &ExternalSpec{S3: &S3Spec{}},
		Node: &NodeSpec{Images: map[string]ProgramSpec{"page:1": {Binary: "x"}}}}
	g.Expect(f.Validate()).NotTo(MatchError(Or(ContainSubstring("external"), ContainSubstring("node"))))
}

// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/env"
)

func TestAround_RequiresNames(t *testing.T) {
	g := NewWithT(t)
	f := &File{External: &ExternalSpec{}, Node: &NodeSpec{Jobs: map[string]env.JobEnd{"work:1": "ends"}}}
	err := f.Validate()
	g.Expect(err).To(MatchError(ContainSubstring("external: say which system; there is s3")))
	g.Expect(err).To(MatchError(ContainSubstring(`node.jobs[work:1]: "ends" is neither`)))
	f = &File{External: &ExternalSpec{S3: &S3Spec{}},
		Node: &NodeSpec{Jobs: map[string]env.JobEnd{"work:1": env.JobRuns}}}
	g.Expect(f.Validate()).NotTo(MatchError(Or(ContainSubstring("external"), ContainSubstring("node"))))
}

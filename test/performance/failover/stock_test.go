package failover

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/tree"
)

// A change of the operator's election may move the lines that the peer's patch
// changes. Then the patch has to follow. `make perf` builds the result.
func TestThePatchOfThePeerApplies(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(tree.Copy("../../..", dir)).To(Succeed())
	g.Expect(tree.Patch(t.Context(), dir, "stock.patch", "--check")).To(Succeed())
}

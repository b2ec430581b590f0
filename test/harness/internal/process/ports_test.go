// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFreePortsAreNotHandedOutTwice(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	// As two processes would have them.
	one, other := testPool(t, 30_000, 30_999), testPool(t, 30_000, 30_999)
	var all []int
	for range 80 {
		for _, p := range []*portPool{one, other} {
			ports, err := p.free(3)
			g.Expect(err).NotTo(HaveOccurred())
			all = append(all, ports...)
		}
	}
	g.Expect(all).To(HaveLen(480))
	slices.Sort(all)
	g.Expect(slices.Compact(all)).To(HaveLen(480))
}

func TestPortsThatAreListenedOnAreNotFree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := testPool(t, 31_000, 31_199)
	first, err := p.free(1)
	g.Expect(err).NotTo(HaveOccurred())
	busy, err := listen(first[0] + 1)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(busy.Close()).To(Succeed()) })
	others, err := p.free(3)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(others).NotTo(ContainElement(first[0] + 1))
	g.Expect(others).To(ContainElement(first[0] + 2))
}

func TestPortsAreHandedOutAgainWhenAllHaveBeen(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := testPool(t, 32_000, 32_199)
	first, err := p.free(1)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = p.free(blockSize - 2)
	g.Expect(err).NotTo(HaveOccurred())
	again, err := p.free(1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(first))

	t.Log("there is no block left for another process")
	_, err = testPool(t, 32_000, 32_199).free(1)
	g.Expect(err).To(MatchError(ContainSubstring("finding 1 free ports from 32000 to 32199")))
	_, err = p.free(blockSize)
	g.Expect(err).To(MatchError(ContainSubstring("finding 200 free ports")))
}

// testPool gives its blocks back at the end of the test.
func testPool(t *testing.T, first, last int) *portPool {
	t.Helper()
	p := &portPool{first: first, last: last}
	t.Cleanup(func() {
		for _, marker := range p.markers {
			_ = marker.Close() // nothing hangs on it
		}
	})
	return p
}

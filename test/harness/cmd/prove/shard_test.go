// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestShard_IsAPartition(t *testing.T) {
	g := NewWithT(t)
	for n := 1; n <= 8; n++ {
		sizes := make([]int, n)
		for i := range 400 {
			p := plan(t, fmt.Sprintf("s:crash-after-write:PATCH:/a/%d:1", i))
			in := 0
			for at := range n {
				var s shard
				g.Expect(s.Set(fmt.Sprintf("%d/%d", at+1, n))).To(Succeed())
				if s.has(*p) {
					in++
					sizes[at]++
				}
			}
			g.Expect(in).To(Equal(1), "shards of %d that have %s", n, p.ID())
		}
		for _, size := range sizes {
			g.Expect(size).To(BeNumerically(">", 400/n/2), "of %d", n)
		}
	}
}

func TestShard_Set(t *testing.T) {
	g := NewWithT(t)
	o, err := parse(newRun, "--shard=2/3", "--seed=7")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.shard).To(Equal(shard{index: 2, count: 3}))
	o, err = parse(newRun, "--shard=0/3", "--seed=7")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.shard).To(Equal(shard{index: 3, count: 3}), "the first index of an Indexed Job")
	for _, wrong := range []string{"0/0", "4/3", "1", "1/0", "-1/3", "1/3x", "a/b"} {
		_, err := parse(newRun, "--shard="+wrong)
		g.Expect(err).To(MatchError(ContainSubstring("is not i/n")), wrong)
	}
	for _, other := range []string{"--clean=3", "--plan=s:crash-after-write:PATCH:/a:1", "--smoke"} {
		_, err := parse(newRun, "--shard=1/3", "--seed=7", other)
		g.Expect(err).To(MatchError(ContainSubstring("--shard excludes")), other)
	}
	_, err = parse(newRun, "--shard=1/3")
	g.Expect(err).To(MatchError(ContainSubstring("--shard needs --seed")))
}

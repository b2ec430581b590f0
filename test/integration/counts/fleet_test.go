// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// fleet is the number of objects of each kind while only the operator changes.
const fleet = 4

// countFleet counts the requests for a converged fleet.
func (c *counter) countFleet(ctx context.Context) {
	var before []step
	var after []step
	for n := range fleet {
		name := fmt.Sprintf("fleet-%d", n)
		t := newTenant(name, v1beta1.NamespaceRetain, suffixes{"a", "b"})
		b, v := newBucket(name, v1beta1.BucketObserve, v1beta1.BucketRetain), newView(name)
		before = append(before, makeBucket(name), create(v), create(t), create(b))
		after = append(after, observed(v), rollOut(name), ready(v), ready(t), ready(b))
	}
	for _, step := range append(append(before, after...), c.rest) {
		step(ctx)
	}
	c.count(ctx,
		phase{"fleet.restart", "each of two replicas fills its caches; each object is reconciled", []step{c.restart}},
		phase{"fleet.resync", "nothing, though each object is reconciled", []step{func(ctx context.Context) {
			c.awaitReconciles(ctx, fleet, c.work(ctx), "tenant", "markdownview")
		}}},
		phase{"fleet.failover", "nothing, though each object is reconciled", []step{c.failOver}},
	)
	// The suite's end expects two replicas.
	suite.StartReplicas(ctx)
	c.killed = nil
}

// restart restarts all replicas. They resync frequently, and are idle in between.
func (c *counter) restart(ctx context.Context) {
	suite.RestartReplicas(ctx, "--sync-period=2s")
	for _, r := range suite.Replicas() {
		Eventually(ctx, r.Ready).WithTimeout(expect.Medium).Should(Succeed())
	}
	suite.Leader(ctx)
	c.awaitReconciles(ctx, fleet, nil, controllers...)
}

// failOver kills the leader.
func (c *counter) failOver(ctx context.Context) {
	c.killed = suite.Leader(ctx)
	c.killed.Kill()
	_, err := c.killed.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	suite.Leader(ctx)
	c.awaitReconciles(ctx, fleet, nil, controllers...)
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

const (
	singleCrashes = 3
	// From the log's first line of the election, after the caches' sync, to the takeover. The
	// median, because a busy machine can stop any process for a second.
	restartedLeads = 500 * time.Millisecond
)

// Log lines when a replica joins the election, with synced caches, and when it leads.
const (
	joinsElection = "Attempting to acquire leader lease"
	tookLease     = "took the Lease"
)

// singleReplica kills the container of the only replica. Its Lease names the former process of the
// same Pod.
func singleReplica() features.Feature {
	f := &failing{}
	return features.New("the only replica crashes").
		Setup(step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.settle(ctx)).To(Succeed())
			g.Expect(shared.scale(ctx, 1)).To(Succeed())
			f.began = time.Now()
			await(ctx, g, func(g Gomega) {
				g.Expect(shared.candidates(ctx)).To(HaveLen(1))
				var err error
				f.leader, err = shared.leader(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(shared.operatorReady(ctx)).To(Succeed())
			}, Succeed())
		})).
		Assess("and leads again as soon as its caches are filled", step(func(ctx context.Context, g *WithT) {
			f.lost = time.Now()
			var all []time.Duration
			for range singleCrashes {
				c := crashLeader(ctx, g)
				g.Expect(c.pod).To(Equal(f.leader.Name))
				g.Expect(c.successor).To(HavePrefix(c.pod + "_"))
				c.awaitRestart(ctx, g)
				took, reason := c.resumed(ctx, g)
				shared.logf("  the only replica led %s after the crash, %s after its caches were filled", c.gap(), took)
				shared.report.add(crashTimes, "single replica | %s | %.2f | %.3f", defaultSettings, c.gap().Seconds(),
					took.Seconds())
				g.Expect(reason).To(ContainSubstring("an earlier process in this Pod"))
				all = append(all, took)
			}
			slices.Sort(all)
			g.Expect(all[len(all)/2]).To(BeNumerically("<=", restartedLeads))
			g.Expect(all[len(all)-1]).To(BeNumerically("<", defaultLease/3), "far from the Lease's expiry")
		})).
		Assess("each write came from the Pod that held the Lease", step(func(ctx context.Context, g *WithT) {
			judgeCrashes(ctx, g, f)
		})).
		Teardown(teardown(func(ctx context.Context, g *WithT) {
			g.Expect(shared.scale(ctx, 2)).To(Succeed())
			g.Expect(shared.settle(ctx)).To(Succeed())
		})).
		Feature()
}

// resumed returns, from the log of the restarted container, the time from synced caches to the
// Lease, and the reason why it could take the Lease.
func (c crash) resumed(ctx context.Context, g *WithT) (took time.Duration, reason string) {
	log, err := shared.kubectl(ctx, "logs", c.pod, "--namespace="+operatorNamespace, "--container="+operatorContainer,
		"--timestamps")
	g.Expect(err).NotTo(HaveOccurred())
	var joined, led time.Time
	for line := range strings.Lines(log) {
		stamp, text, _ := strings.Cut(line, " ") // the container runtime's time of reading the line
		at, err := time.Parse(time.RFC3339Nano, stamp)
		g.Expect(err).NotTo(HaveOccurred())
		switch {
		case strings.Contains(text, joinsElection) && joined.IsZero():
			joined = at
		case strings.Contains(text, tookLease):
			led, reason = at, text
		}
	}
	g.Expect(joined).To(BeTemporally(">", c.lost))
	g.Expect(led).To(BeTemporally(">=", joined))
	return led.Sub(joined), reason
}

// scale sets the Deployment's replicas.
func (s *suite) scale(ctx context.Context, replicas int) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: operatorName}}
	return s.client.Patch(ctx, d, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))
}

// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// collected is the time after which an idle replica has collected its garbage: Go does so at least
// every two minutes.
const collected = 3 * time.Minute

// buffers is the memory that a replica keeps for decoding after it has read large objects,
// independent of their number.
const buffers = 12 << 20

const (
	// whileStreaming bounds the memory for reading the objects at a start, one at a time.
	whileStreaming = 96 << 20
	// whileListing bounds it where the API server does not stream lists (Kubernetes 1.31 and 1.33): the
	// views and their ConfigMaps are whole in memory at once. With what a replica needs without them it
	// is within the container's limit of 512 MiB.
	whileListing = 400 << 20
)

var _ = Describe("The memory of a replica", Serial, func() {
	// The unit tests of the caches test which parts of each other object are kept.
	It("grows with the number of views, not with their contents", func(ctx SpecContext) {
		suite.NeedsProcesses()
		// A new process has no garbage of an earlier spec.
		suite.StopReplicas(ctx)
		suite.StartReplicas(ctx)
		n := 60
		if text := os.Getenv("MEMORY_VIEWS"); text != "" {
			var err error
			n, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred())
		}
		before := live(ctx)
		started := figures("VmHWM")
		By(fmt.Sprintf("making %d views of 880 KiB", n))
		createViews(ctx, n)
		Eventually(func(g Gomega) {
			var views v1beta1.MarkdownViewList
			g.Expect(k8s.List(ctx, &views)).To(Succeed())
			g.Expect(views.Items).To(HaveLen(n))
			for i := range views.Items {
				g.Expect(views.Items[i].Status.ContentHash).NotTo(BeEmpty())
			}
		}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(5 * time.Second).Should(Succeed())
		heldAtMost(ctx, before, buffers+n*(16<<10))
		AddReportEntry("resident with the views, in bytes", figures("VmRSS"))

		By("starting with them")
		startsWithin(ctx, started)
	}, SpecTimeout(40*time.Minute))
})

// createViews creates n views of 880 KiB, a few at once, and deletes them after the spec.
func createViews(ctx context.Context, n int) {
	GinkgoHelper()
	each := func(ctx context.Context, f func(context.Context, *v1beta1.MarkdownView) error) {
		GinkgoHelper()
		var group errgroup.Group
		group.SetLimit(4)
		for i := range n {
			group.Go(func() error { return f(ctx, view(fmt.Sprintf("large-%d", i), 4)) })
		}
		Expect(group.Wait()).To(Succeed())
	}
	DeferCleanup(func(ctx context.Context) {
		each(ctx, func(ctx context.Context, v *v1beta1.MarkdownView) error {
			return client.IgnoreNotFound(k8s.Delete(ctx, v))
		})
	})
	// On a busy machine the webhook may not receive such a body in time. Then nothing is stored.
	each(ctx, func(ctx context.Context, v *v1beta1.MarkdownView) error {
		return retry.OnError(wait.Backoff{Steps: 5, Duration: time.Second}, apierrors.IsInternalError,
			func() error { return k8s.Create(ctx, v) })
	})
}

// live returns the live heap of each replica at the last collection, in bytes: the next collection
// is due when the heap is twice that.
func live(ctx context.Context) map[string]int {
	GinkgoHelper()
	held := map[string]int{}
	for _, r := range suite.Replicas() {
		next, found := operator.SeriesOf(ctx, r, "go_memstats_next_gc_bytes")
		Expect(found).To(BeTrue())
		held[r.Name()] = int(next / 2)
	}
	return held
}

// heldAtMost waits until no replica's live heap exceeds that before by more than bytes.
func heldAtMost(ctx context.Context, before map[string]int, bytes int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for name, held := range live(ctx) {
			g.Expect(held-before[name]).To(BeNumerically("<", bytes), "%s holds %d MiB, and held %d MiB before", name, held>>20,
				before[name]>>20)
		}
	}).WithContext(ctx).WithTimeout(collected).WithPolling(time.Second).Should(Succeed())
}

// startsWithin restarts a shipped replica, and starts another against an API server that streams no
// lists. Neither may need more than its bound above a start without the objects.
func startsWithin(ctx context.Context, started map[string]int64) {
	GinkgoHelper()
	standby := suite.Replicas()[0]
	if standby == suite.Leader(ctx) {
		standby = suite.Replicas()[1]
	}
	_, err := standby.Stop(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(standby.Restart()).To(Succeed())
	Eventually(ctx, standby.Ready).WithTimeout(expect.Long).Should(Succeed())
	listing := suite.StartReplica(ctx,
		func(o *env.ReplicaOptions) { o.Env = append(o.Env, "KUBE_FEATURE_WatchListClient=false") })
	empty := started[standby.Name()]
	for how, r := range map[string]*env.Replica{"streaming": standby, "listing": listing} {
		bytes := int64(whileStreaming)
		if r == listing {
			bytes = whileListing
		}
		peak := status(r, "VmHWM")
		AddReportEntry(fmt.Sprintf("%s at its start, %s: most %d MiB, without the objects %d MiB", r.Name(), how, peak>>20,
			empty>>20))
		Expect(peak-empty).To(BeNumerically("<", bytes), "%s, %s, took %d MiB to start, and %d MiB without the objects",
			r.Name(), how, peak>>20, empty>>20)
	}
}

// figures returns each replica's resident memory now (VmRSS) or its peak since the start (VmHWM).
func figures(field string) map[string]int64 {
	GinkgoHelper()
	all := map[string]int64{}
	for _, r := range suite.Replicas() {
		all[r.Name()] = status(r, field)
	}
	return all
}

// status reads a field of the replica's process status, in bytes.
func status(r *env.Replica, field string) int64 {
	GinkgoHelper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			Expect(err).NotTo(HaveOccurred())
			return kilobytes << 10
		}
	}
	Fail("there is no " + field)
	return 0
}

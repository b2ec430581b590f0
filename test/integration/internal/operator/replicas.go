// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/leasehold"
)

// Replicas returns the operator's processes, including those that do not run.
func (s *Suite) Replicas() []*env.Replica { return s.installation.Replicas() }

// StartReplica starts another replica with changed options. It runs until the suite ends.
func (s *Suite) StartReplica(ctx context.Context, change func(*env.ReplicaOptions)) *env.Replica {
	GinkgoHelper()
	r, err := s.installation.Start(context.WithoutCancel(ctx), change)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, r.Ready).WithTimeout(expect.Long).Should(Succeed())
	return r
}

// Leader waits for a running replica that the Lease names, and returns it.
func (s *Suite) Leader(ctx context.Context) *env.Replica {
	GinkgoHelper()
	var leader *env.Replica
	Eventually(func(g Gomega) {
		lease, err := leasehold.ElectionLease(ctx, s.Client)
		g.Expect(err).NotTo(HaveOccurred())
		leader = leasehold.Holder(lease, s.Replicas())
		g.Expect(leader).To(And(Not(BeNil()), HaveField("Running()", true)), "holder %q does not run",
			ptr.Deref(lease.Spec.HolderIdentity, ""))
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	return leader
}

// StartReplicas starts the replicas that do not run, and waits until admission works.
func (s *Suite) StartReplicas(ctx context.Context) {
	GinkgoHelper()
	for _, r := range s.Replicas() {
		if !r.Running() {
			Expect(r.Restart()).To(Succeed())
		}
	}
	for _, r := range s.Replicas() {
		Eventually(ctx, r.Ready).WithTimeout(expect.Medium).Should(Succeed())
	}
	Eventually(ctx, s.answers).WithTimeout(expect.Short).Should(Succeed())
}

// RestartReplicas restarts all replicas with more arguments. It does not wait until they are ready,
// because the arguments may prevent that.
func (s *Suite) RestartReplicas(ctx context.Context, args ...string) {
	GinkgoHelper()
	s.StopReplicas(ctx)
	for _, r := range s.Replicas() {
		Expect(r.RestartWith(args...)).To(Succeed())
	}
}

// StopReplicas sends SIGTERM to all replicas, and waits until they have ended.
func (s *Suite) StopReplicas(ctx context.Context) {
	GinkgoHelper()
	for _, r := range s.Replicas() {
		code, err := r.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero(), "%s did not end well; the end of its log:\n%s", r.Name(), r.LogTail(20))
	}
}

// SeriesOf reads one series, with its labels, of a replica's metrics.
func SeriesOf(ctx context.Context, replica *env.Replica, name string) (value float64, found bool) {
	GinkgoHelper()
	for line := range strings.Lines(MetricsOf(ctx, replica)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			Expect(err).NotTo(HaveOccurred())
			return value, true
		}
	}
	return 0, false
}

// MetricsOf reads all metrics of a replica.
func MetricsOf(ctx context.Context, replica *env.Replica) string {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL(replica), nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(page)
}

func metricsURL(replica *env.Replica) string {
	return fmt.Sprintf("http://127.0.0.1:%d/metrics", replica.Ports().Metrics)
}

// HasMetric reports whether the leader's metrics have the series.
func (s *Suite) HasMetric(ctx context.Context, name string) bool {
	GinkgoHelper()
	_, found := SeriesOf(ctx, s.Leader(ctx), name)
	return found
}

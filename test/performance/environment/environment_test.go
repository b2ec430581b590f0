package environment_test

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/environment"
)

func TestAStageHasALeaderAndItsMetrics(t *testing.T) {
	t.Parallel()
	g, ctx := NewWithT(t), t.Context()
	checkout, err := environment.Build(ctx, filepath.Join("..", "..", ".."), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	s, err := environment.Start(ctx, checkout, environment.Options{Replicas: 2})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(s.Stop(ctx)).To(Succeed()) }()

	leader, err := s.Leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(leader).NotTo(BeNil())
	for _, r := range s.Installation.Replicas() {
		metrics, err := environment.ReadMetrics(ctx, r)
		g.Expect(err).NotTo(HaveOccurred())
		leads := 0.0
		if r == leader {
			leads = 1
		}
		g.Expect(metrics.Sum("leader_election_master_status", map[string]string{"name": environment.Lease})).To(Equal(leads), r.Name())
		g.Expect(metrics.Sum("leader_election_master_status", map[string]string{"name": "another"})).To(BeZero())
	}
}

func TestACheckoutThatDoesNotBuildSaysWhy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := environment.Build(t.Context(), t.TempDir(), t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("go.mod")))
}

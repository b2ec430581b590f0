package storagebucket_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/leasehold"
)

// ownInstallation is a control plane of the spec's own with one replica of the
// operator, where the spec needs flags that would disturb the others. Until the
// spec ends k8s is a client of it, so all helpers work there.
func ownInstallation(ctx context.Context, o env.Options, args ...string) *env.Replica {
	GinkgoHelper()
	suite.NeedsControllers()
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		Skip("needs a control plane of its own")
	}
	config := filepath.Join("..", "..", "..", "config")
	// What is started here ends in a cleanup, and not with the spec's context.
	lasting := context.WithoutCancel(ctx)
	plane, err := leasehold.StartControlPlane(lasting, config, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	args = append([]string{"--metrics-secure=false", "--endpoint-allow-cidr=127.0.0.1/32", "--probe-tick-interval=200ms"},
		args...)
	installation, err := plane.Install(lasting, leasehold.Subject(config, operator.Manager(), args...))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(installation.Stop(ctx)).To(Succeed()) })
	replica, err := installation.Start(lasting)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, replica.Ready).WithTimeout(expect.Medium).Should(Succeed(),
		func() string { return replica.LogTail(20) })
	shared := k8s
	k8s, err = client.New(plane.Config(), client.Options{Scheme: shared.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { k8s = shared })
	return replica
}

// retainedBuckets is how many buckets a replica has counted as kept for a reason.
func retainedBuckets(replica *env.Replica, reason string) func(context.Context) float64 {
	return func(ctx context.Context) float64 {
		value, _ := operator.SeriesOf(ctx, replica,
			fmt.Sprintf("leasehold_storagebucket_retained_buckets_total{reason=%q}", reason))
		return value
	}
}

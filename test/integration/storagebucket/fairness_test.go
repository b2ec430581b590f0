package storagebucket_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

// blackHoles returns the number of black holes: by default more for each worker than the operator
// has, and 1000 with BLACK_HOLES=1000, the full size.
func blackHoles() int {
	GinkgoHelper()
	text, set := os.LookupEnv("BLACK_HOLES")
	if !set {
		return 40
	}
	n, err := strconv.Atoi(text)
	Expect(err).NotTo(HaveOccurred())
	return n
}

// blackHole returns an endpoint that accepts connections, counts them and never answers.
func blackHole(ctx context.Context, accepted *atomic.Int64) string {
	GinkgoHelper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
	}()
	return "http://" + l.Addr().String()
}

var _ = Describe("Black holes in one namespace, each with an endpoint of its own", func() {
	It("delay the probes of another by at most a period, and a new bucket by at most 10 s", Serial, func(ctx SpecContext) {
		const period = 10 * time.Second
		proxy, dark, honest := through(fault.Options{}), place(ctx), place(ctx)
		var accepted atomic.Int64
		n := blackHoles()
		for range n {
			given(ctx, build(dark, blackHole(ctx, &accepted), "dark", probing(10, 10, 3)))
		}
		Eventually(accepted.Load).WithTimeout(expect.Medium).Should(BeNumerically(">=", 2))

		began := time.Now()
		created := given(ctx, build(honest, proxy.URL(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		Eventually(ctx, operator.Fetched(k8s, created)).WithTimeout(expect.Long).Should(
			HaveField("Status.Provisioning", v1beta1.BucketCreated))
		Expect(time.Since(began)).To(BeNumerically("<=", 10*time.Second), "until the new bucket was created")

		var names []string
		for range 10 {
			names = append(names, bucketOnServer(ctx))
			given(ctx, build(honest, proxy.URL(), names[len(names)-1], probing(10, 5, 3)))
		}
		Eventually(func(g Gomega) {
			for _, name := range names {
				g.Expect(len(probes(proxy, name))).To(BeNumerically(">=", 4), name)
			}
		}).WithTimeout(expect.Long).Should(Succeed())
		worst := time.Duration(0)
		for _, name := range names {
			worst = max(worst, slices.Max(gaps(probes(proxy, name))))
		}
		AddReportEntry("figures", fmt.Sprintf(
			"%d black holes: a new bucket after %s, probes of others every %s at most, %d connections",
			n, created.Status.LastProbeTime.Sub(began).Round(time.Millisecond), worst.Round(time.Millisecond), accepted.Load()))
		Expect(worst).To(BeNumerically("<=", 2*period), "between two probes")
		By("checking that the black holes were probed meanwhile")
		Expect(accepted.Load()).To(BeNumerically(">=", 4))
	}, SpecTimeout(10*time.Minute))
})

var _ = Describe("A Secret that is missing", func() {
	It("is used within seconds after its creation, however long the period", func(ctx SpecContext) {
		namespace, name := place(ctx), bucketOnServer(ctx)
		b := given(ctx, build(namespace, storage.Endpoint(), name, probing(86400, 5, 3), func(b *v1beta1.StorageBucket) {
			b.Spec.CredentialsSecretRef.Name = "later"
		}))
		eventually(ctx, b, "False", v1beta1.ReasonCredentialsNotFound)
		keys(ctx, namespace, "later", storage.Account())
		eventuallyReady(ctx, b)
	}, SpecTimeout(time.Minute))
})

// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

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

var _ = Describe("Black holes in one namespace, more than the operator has workers", func() {
	It("delay the first probe and the creation of a bucket in another by at most 20 s", Serial, func(ctx SpecContext) {
		const n, workers = 40, 32
		dark, honest := place(ctx), place(ctx)
		var accepted atomic.Int64
		for range n {
			given(ctx, build(dark, blackHole(ctx, &accepted), "dark", probing(15, 15, 3)))
		}
		Eventually(accepted.Load).WithTimeout(expect.Medium).Should(BeNumerically(">=", workers), "all workers wait")
		began := time.Now()
		observed := given(ctx, build(honest, storage.Endpoint(), bucketOnServer(ctx)))
		created := given(ctx, build(honest, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		for _, b := range []*v1beta1.StorageBucket{observed, created} {
			eventuallyReady(ctx, b)
		}
		took := time.Since(began)
		AddReportEntry("figures", fmt.Sprintf("%d black holes: two buckets of another namespace are Ready after %s", n,
			took.Round(time.Millisecond)))
		Expect(took).To(BeNumerically("<=", 20*time.Second))
	}, SpecTimeout(5*time.Minute))
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

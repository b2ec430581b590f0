// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/s3server"
	"leasehold.dev/test/integration/internal/operator"
)

// The golden files of the package s3 test the verdict on each response, and the golden reconciles
// its effects.
var _ = Describe("Probing a bucket", decidedByService, func() {
	It("finds it healthy, reports that once and leaves no trace on it", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), bucketOnServer(ctx)
		b := given(ctx, build(place(ctx), proxy.URL(), name))
		eventuallyReady(ctx, b)
		Expect(b.Finalizers).To(BeEmpty())
		Expect(b.Status.LastProbeTime).NotTo(BeNil())
		Expect(b.Status.LastSuccessTime).NotTo(BeNil())
		Expect(b.Status.ConsecutiveFailures).To(BeZero())
		secret := &corev1.Secret{ObjectMeta: named(b.Namespace, credentials)}
		Expect(expect.Fetched(k8s, secret)(ctx)).Error().NotTo(HaveOccurred())
		Expect(b.Status.ObservedSecretResourceVersion).To(Equal(secret.ResourceVersion))
		Eventually(func() int { return len(probes(proxy, name)) }).WithTimeout(expect.Medium).Should(BeNumerically(">=", 2))
		Eventually(ctx, reasonsOf(b)).Should(Equal([]string{"Normal BucketHealthy"}))
		Expect(proxy.Journal().Mutating()).To(BeEmpty(), "Observe never sends a request that changes something")
	}, SpecTimeout(time.Minute))

	It("trusts the authority in a ConfigMap when it is added", func(ctx SpecContext) {
		proxy := through(fault.Options{TLS: true})
		b := given(ctx, build(place(ctx), proxy.URL(), bucketOnServer(ctx), func(b *v1beta1.StorageBucket) {
			b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca"}
		}))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonTLSVerificationFailed)
		Expect(k8s.Create(ctx, &corev1.ConfigMap{ObjectMeta: named(b.Namespace, "ca"),
			Data: map[string]string{"ca.crt": string(proxy.CA())}})).To(Succeed())
		eventuallyReady(ctx, b)
	}, SpecTimeout(time.Minute))

	It("reports a real server's errors for wrong keys, missing permissions, an unknown name and another region",
		func(ctx SpecContext) {
			namespace, name, root := place(ctx), bucketOnServer(ctx), storage.Account()
			stranger, err := storage.AddAccount(ctx)
			Expect(err).NotTo(HaveOccurred())
			status, otherRegion := metav1.ConditionFalse, v1beta1.ReasonRegionMismatch
			if server().anyRegion {
				status, otherRegion = metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded
			}
			for _, c := range []struct {
				account              s3server.Account
				bucket, region, want string
				status               metav1.ConditionStatus
			}{
				{stranger, name, s3server.Region, v1beta1.ReasonAccessDenied, metav1.ConditionFalse},
				{s3server.Account{AccessKey: root.AccessKey, SecretKey: "wrong-secret-of-a-good-key"}, name, s3server.Region,
					v1beta1.ReasonInvalidCredentials, metav1.ConditionFalse},
				{s3server.Account{AccessKey: "UNKNOWNKEY0000000000", SecretKey: root.SecretKey}, name, s3server.Region,
					v1beta1.ReasonInvalidCredentials, metav1.ConditionFalse},
				{root, "no-such-bucket", s3server.Region, v1beta1.ReasonBucketNotFound, metav1.ConditionFalse},
				{root, name, "eu-west-1", otherRegion, status},
			} {
				secret := keys(ctx, namespace, operator.Unique("account"), c.account)
				b := given(ctx, build(namespace, storage.Endpoint(), c.bucket, func(b *v1beta1.StorageBucket) {
					b.Spec.CredentialsSecretRef.Name, b.Spec.Region = secret.Name, c.region
				}))
				eventually(ctx, b, c.status, c.want)
			}
		}, SpecTimeout(time.Minute))

	It("reports a real server that does not answer, or has exited, and its return", func(ctx SpecContext) {
		b := given(ctx, build(place(ctx), storage.Endpoint(), bucketOnServer(ctx), probing(3600, server().timeout, 1)))
		eventuallyReady(ctx, b)
		Expect(storage.Pause(ctx)).To(Succeed())
		DeferCleanup(storage.Resume)
		request(ctx, b, "paused")
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonProbeTimeout)
		Expect(storage.Resume()).To(Succeed())
		storage.Kill()
		DeferCleanup(func(ctx context.Context) {
			if !storage.Running() {
				Expect(storage.Restart(ctx)).To(Succeed())
			}
		})
		request(ctx, b, "killed")
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
		Expect(storage.Restart(ctx)).To(Succeed())
		request(ctx, b, "restarted")
		eventuallyReady(ctx, b)
	}, SpecTimeout(2*time.Minute))
})

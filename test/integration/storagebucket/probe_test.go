// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

// The golden files of the package s3 test the verdict on each response, and the golden reconciles
// its effects.
var _ = Describe("Probing a bucket", func() {
	It("finds it healthy, reports that once and leaves no trace on it", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), bucketOnServer(ctx)
		b := given(ctx, build(place(ctx), proxy.URL(), name))
		eventuallyReady(ctx, b)
		Expect(b.Finalizers).To(BeEmpty())
		Expect(b.Status.LastProbeTime).NotTo(BeNil())
		Expect(b.Status.LastSuccessTime).NotTo(BeNil())
		Expect(b.Status.ConsecutiveFailures).To(BeZero())
		secret := &corev1.Secret{ObjectMeta: named(b.Namespace, credentials)}
		Expect(operator.Fetched(k8s, secret)(ctx)).Error().NotTo(HaveOccurred())
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

	It("reports a real server's errors for wrong keys, missing permissions and an unknown name", func(ctx SpecContext) {
		namespace, name := place(ctx), bucketOnServer(ctx)
		stranger, err := storage.AddAccount(ctx, env.S3RoleUser)
		Expect(err).NotTo(HaveOccurred())
		for reason, account := range map[string]env.S3Account{
			v1beta1.ReasonAccessDenied:       stranger,
			v1beta1.ReasonInvalidCredentials: {AccessKey: storage.Account().AccessKey, SecretKey: "wrong-secret-of-a-good-key"},
		} {
			wrong := keys(ctx, namespace, operator.Unique("account"), account)
			b := given(ctx, build(namespace, storage.Endpoint(), name, func(b *v1beta1.StorageBucket) {
				b.Spec.CredentialsSecretRef.Name = wrong.Name
			}))
			eventually(ctx, b, metav1.ConditionFalse, reason)
		}
		missing := given(ctx, build(namespace, storage.Endpoint(), "no-such-bucket"))
		eventually(ctx, missing, metav1.ConditionFalse, v1beta1.ReasonBucketNotFound)
	}, SpecTimeout(time.Minute))
})

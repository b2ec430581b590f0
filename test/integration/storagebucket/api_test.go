// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("The API of StorageBucket", operator.OldestKubernetes, func() {
	type change = func(*v1beta1.StorageBucketSpec)
	endpoint := func(url string) change { return func(s *v1beta1.StorageBucketSpec) { s.Endpoint = url } }
	name := func(bucket string) change { return func(s *v1beta1.StorageBucketSpec) { s.BucketName = bucket } }
	virtualHost := func(bucket, url string) change {
		return func(s *v1beta1.StorageBucketSpec) {
			s.BucketName, s.Endpoint, s.AddressingStyle = bucket, url, v1beta1.AddressingVirtualHost
		}
	}
	const noURL, badHost, more = "must be a URL that starts with http:// or https://", "must be an IP address or consist of letters",
		"must not contain a user, path, query or fragment"
	// The golden file of config/ tests the limits of the schema.
	DescribeTable("refuses invalid specs, and names the change", func(ctx SpecContext, f change, want string) {
		b := build("default", "https://s3.example.com", "team-data", func(b *v1beta1.StorageBucket) { f(&b.Spec) })
		err := k8s.Create(ctx, b, client.DryRunAll)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(want)))
	},
		Entry("an upper case name", name("Data"), "spec.bucketName"),
		Entry("two dots", name("a..b"), "must not contain '..'"),
		Entry("an address for a name", name("10.1.2.3"), "must not be an IP address"),
		Entry("punycode", name("xn--data"), "must not start with 'xn--'"),
		Entry("no URL", endpoint("s3.example.com"), noURL),
		Entry("another scheme", endpoint("ftp://s3.example.com"), noURL),
		Entry("an upper case scheme", endpoint("HTTPS://s3.example.com"), noURL),
		Entry("no host", endpoint("https://:9000"), "contains a host"),
		Entry("an odd host", endpoint("http://a!b"), badHost),
		Entry("a zone", endpoint("http://[fd00::1%25eth0]:9000"), "spec.endpoint"),
		Entry("an empty port", endpoint("http://s3.example.com:"), "and the port, if there is one"),
		Entry("port zero", endpoint("http://s3.example.com:0"), "and the port, if there is one"),
		Entry("a port above the last", endpoint("http://s3.example.com:65536"), "and the port, if there is one"),
		Entry("a port of five nines", endpoint("https://[fd00::1]:99999/"), "and the port, if there is one"),
		Entry("a password", endpoint("https://a:b@s3.example.com"), more),
		Entry("a path", endpoint("https://s3.example.com/team"), more),
		Entry("a query", endpoint("https://s3.example.com?x"), more),
		Entry("a fragment", endpoint("https://s3.example.com#x"), "spec.endpoint"),
		Entry("a host with the bucket's name", endpoint("https://team-data.s3.eu-west-1.amazonaws.com"),
			"must not begin with the bucket's name"),
		Entry("dots before a virtual host with TLS", virtualHost("team.data", "https://s3.example.com"),
			"does not match such a host name"),
		Entry("a virtual host before an address", virtualHost("team-data", "http://10.1.2.3:9000"),
			"addressingStyle must be Path"),
		Entry("no credentials", func(s *v1beta1.StorageBucketSpec) { s.CredentialsSecretRef.Name = "" },
			"spec.credentialsSecretRef"),
		Entry("an authority without TLS", func(s *v1beta1.StorageBucketSpec) {
			s.Endpoint, s.CABundleRef = "http://s3.example.com", &v1beta1.ConfigMapKeyReference{Name: "ca"}
		}, "caBundleRef must not be set"),
		Entry("a timeout above the period", func(s *v1beta1.StorageBucketSpec) { s.Probe.TimeoutSeconds = 11 },
			"timeoutSeconds must be less than or equal to periodSeconds"),
		Entry("the deletion of an observed bucket",
			func(s *v1beta1.StorageBucketSpec) { s.DeletionPolicy = v1beta1.BucketDelete },
			"deletionPolicy Delete requires managementPolicy Manage"),
	)

	It("takes what can work", func(ctx SpecContext) {
		for _, url := range []string{"https://s3.example.com", "https://s3.example.com/", "http://minio:9000",
			"http://10.1.2.3:9000/", "http://[fd00::1]:9000", "https://S3.Example.COM:443", "http://s3.example.com:1",
			"http://[fd00::1]:65535/", "https://team-data.example.com", "https://s3.eu-west-1.amazonaws.com"} {
			Expect(k8s.Create(ctx, build("default", url, "team-data"), client.DryRunAll)).To(Succeed(), url)
		}
	})

	It("makes the bucket's identity immutable and the rest mutable", func(ctx SpecContext) {
		namespace := place(ctx)
		observed := given(ctx, build(namespace, storage.Endpoint(), "team-data"))
		ours := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		refused := func(b *v1beta1.StorageBucket, f change, text string) {
			GinkgoHelper()
			// Retried after a concurrent write of the operator.
			Eventually(ctx, func(ctx context.Context) error {
				changed := b.DeepCopy()
				if err := k8s.Get(ctx, client.ObjectKeyFromObject(b), changed); err != nil {
					return err
				}
				f(&changed.Spec)
				return k8s.Update(ctx, changed, client.DryRunAll)
			}).Should(MatchError(ContainSubstring(text)))
		}
		refused(observed, func(s *v1beta1.StorageBucketSpec) { s.BucketName = "other-data" }, "bucketName is immutable")
		refused(observed, func(s *v1beta1.StorageBucketSpec) { s.ManagementPolicy = v1beta1.BucketManage },
			"managementPolicy is immutable")
		refused(ours, func(s *v1beta1.StorageBucketSpec) { s.ManagementPolicy = v1beta1.BucketObserve },
			"managementPolicy is immutable")
		refused(ours, func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://s3.example.com" },
			"endpoint and region are immutable")
		refused(ours, func(s *v1beta1.StorageBucketSpec) { s.Region = "eu-west-1" }, "region are immutable")
		operator.Change(ctx, k8s, observed,
			func(b *v1beta1.StorageBucket) { b.Spec.Endpoint, b.Spec.Region = "https://s3.example.com", "eu-west-1" })
		operator.Change(ctx, k8s, ours, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketDelete })
	}, SpecTimeout(time.Minute))

	It("shows the bucket, its state and the last probe, and can be waited for from the creation",
		func(ctx SpecContext) {
			name := bucketOnServer(ctx)
			b := given(ctx, build(place(ctx), storage.Endpoint(), name))
			Expect(operator.Kstatus(b)).To(Equal(status.InProgressStatus), "before the operator has observed it")
			out, err := suite.Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=30s", "-n", b.Namespace,
				"storagebucket/"+b.Name)
			Expect(err).NotTo(HaveOccurred(), out)
			first := b.DeepCopy()
			suite.FirstStatus("storagebuckets", first)
			Expect(first).To(expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded))
			columns, cells := suite.Table(ctx, "storagebuckets", b.Namespace, b.Name)
			Expect(columns).To(Equal([]string{"Name/0", "Bucket/0", "Ready/0", "Paused/0", "Reason/0", "LastProbe/0",
				"Policy/1", "Endpoint/1", "Age/0"}))
			Expect(cells[:5]).To(Equal([]any{b.Name, name, "True", nil, "ProbeSucceeded"}))
			Expect(cells[5]).To(MatchRegexp(`^\d+s$`))
			Expect(cells[6:8]).To(Equal([]any{"Observe", storage.Endpoint()}))

			missing := given(ctx, build(b.Namespace, storage.Endpoint(), operator.Unique("nowhere")))
			eventually(ctx, missing, metav1.ConditionFalse, v1beta1.ReasonBucketNotFound)
			_, cells = suite.Table(ctx, "storagebuckets", missing.Namespace, missing.Name)
			Expect(cells[5]).To(MatchRegexp(`^\d+s$`), "a probe that failed is one, too")
		}, SpecTimeout(time.Minute))

	It("allows other changes of an object that violates a newer rule", Serial, func(ctx SpecContext) {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "storagebuckets.leasehold.dev"}}
		nameOf := func(c *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
			return c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
		}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		rules := nameOf(crd)["bucketName"].XValidations
		Expect(rules).NotTo(BeEmpty())
		old := build(place(ctx), storage.Endpoint(), "xn--old", managed(v1beta1.BucketRetain))
		create := func(ctx context.Context) error {
			another := old.DeepCopy()
			another.Name, another.ResourceVersion, another.UID = operator.Unique("another"), "", ""
			return k8s.Create(ctx, another, client.DryRunAll)
		}
		have := func(ctx context.Context, rules apiextensionsv1.ValidationRules, effect OmegaMatcher) {
			operator.Change(ctx, k8s, crd, func(c *apiextensionsv1.CustomResourceDefinition) {
				schema := nameOf(c)["bucketName"]
				schema.XValidations = rules
				nameOf(c)["bucketName"] = schema
			})
			Eventually(ctx, create).Should(effect)
		}
		restore := func(ctx context.Context) {
			have(ctx, rules, MatchError(ContainSubstring("must not start with 'xn--'")))
		}
		DeferCleanup(restore)
		have(ctx, nil, Succeed())
		given(ctx, old)
		restore(ctx)

		operator.Change(ctx, k8s, old,
			func(b *v1beta1.StorageBucket) { b.Labels = map[string]string{"example.com/team": "x"} })
		operator.Change(ctx, k8s, old, func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds = 20 })
		Eventually(ctx, expect.Fetched(k8s, old)).WithTimeout(expect.Medium).
			Should(expect.HaveFinalizer(v1beta1.StorageBucketFinalizer))
		suite.NeedsKubernetes(33, "which validates only the changed fields of a status too")
		Eventually(ctx, expect.Fetched(k8s, old)).WithTimeout(expect.Medium).Should(expect.HaveObservedGeneration(),
			"the operator must be able to work on it too")
	}, SpecTimeout(time.Minute))
})

package storagebucket_test

import (
	"context"
	"strings"
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
	DescribeTable("refuses what cannot work, and says what to change", func(ctx SpecContext, f change, want ...string) {
		b := build("default", "https://s3.example.com", "team-data", func(b *v1beta1.StorageBucket) { f(&b.Spec) })
		err := k8s.Create(ctx, b, client.DryRunAll)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		for _, text := range want {
			Expect(err).To(MatchError(ContainSubstring(text)))
		}
	},
		Entry("a short name", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.BucketName = "ab" },
			"spec.bucketName", "at least 3"),
		Entry("a long name", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.BucketName = strings.Repeat("a", 64) }, "spec.bucketName", "63"),
		Entry("an upper case name", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.BucketName = "Data" },
			"spec.bucketName"),
		Entry("two dots", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.BucketName = "a..b" },
			"must not contain '..'"),
		Entry("an address for a name", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.BucketName = "10.1.2.3" }, "must not be an IP address"),
		Entry("punycode", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.BucketName = "xn--data" },
			"must not start with 'xn--'"),
		Entry("no endpoint", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "" },
			"spec.endpoint: Required value"),
		Entry("no URL", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "s3.example.com" },
			"must be a URL that starts with http:// or https://"),
		Entry("another scheme", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "ftp://s3.example.com" },
			"must be a URL that starts with http:// or https://"),
		Entry("no host", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://:9000" },
			"names a host"),
		Entry("an upper case scheme", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "HTTPS://s3.example.com" },
			"must be a URL that starts with http:// or https://"),
		Entry("an odd host", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "http://a!b" },
			"must name a host of letters, digits"),
		Entry("a zone", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "http://[fd00::1%25eth0]:9000" }, "spec.endpoint"),
		Entry("an empty port", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "http://s3.example.com:" }, "and if a port"),
		Entry("port zero", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "http://s3.example.com:0" }, "and if a port"),
		Entry("a port above the last", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "http://s3.example.com:65536" }, "and if a port"),
		Entry("a port of five nines", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://[fd00::1]:99999/" }, "and if a port"),
		Entry("dots before a virtual host with TLS", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) {
			s.BucketName, s.AddressingStyle = "team.data", v1beta1.AddressingVirtualHost
		}, "no certificate is for such a host"),
		Entry("a password", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://a:b@s3.example.com" },
			"must have no user, path, query or fragment"),
		Entry("a path", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://s3.example.com/team" },
			"must have no user, path, query or fragment"),
		Entry("a query", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://s3.example.com?x" },
			"must have no user, path, query or fragment"),
		Entry("a fragment", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://s3.example.com#x" }, "spec.endpoint"),
		Entry("a virtual host before an address", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) {
			s.Endpoint, s.AddressingStyle = "http://10.1.2.3:9000", v1beta1.AddressingVirtualHost
		}, "addressingStyle must be Path"),
		Entry("no credentials", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.CredentialsSecretRef = v1beta1.SecretReference{} },
			"spec.credentialsSecretRef"),
		Entry("an authority without TLS", SpecTimeout(time.Minute), func(s *v1beta1.StorageBucketSpec) {
			s.Endpoint, s.CABundleRef = "http://s3.example.com", &v1beta1.ConfigMapKeyReference{Name: "ca"}
		}, "caBundleRef must not be set"),
		Entry("a timeout above the period", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Probe.TimeoutSeconds = 11 },
			"timeoutSeconds must be less than or equal to periodSeconds"),
		Entry("a period that is too short", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.Probe.PeriodSeconds = 9 }, "spec.probe.periodSeconds", "10"),
		Entry("the deletion of what is only observed", SpecTimeout(time.Minute),
			func(s *v1beta1.StorageBucketSpec) { s.DeletionPolicy = v1beta1.BucketDelete },
			"deletionPolicy Delete needs managementPolicy Manage"),
	)

	DescribeTable("takes what can work", func(ctx SpecContext, endpoint string) {
		Expect(k8s.Create(ctx, build("default", endpoint, "team-data"), client.DryRunAll)).To(Succeed())
	},
		Entry(nil, SpecTimeout(time.Minute), "https://s3.example.com"),
		Entry(nil, SpecTimeout(time.Minute), "https://s3.example.com/"),
		Entry(nil, SpecTimeout(time.Minute), "http://minio:9000"),
		Entry(nil, SpecTimeout(time.Minute), "http://10.1.2.3:9000/"),
		Entry(nil, SpecTimeout(time.Minute), "http://[fd00::1]:9000"),
		Entry(nil, SpecTimeout(time.Minute), "https://S3.Example.COM:443"),
		Entry(nil, SpecTimeout(time.Minute), "http://s3.example.com:1"),
		Entry(nil, SpecTimeout(time.Minute), "http://[fd00::1]:65535/"),
	)

	It("fills in what is left out", func(ctx SpecContext) {
		b := build("default", "https://s3.example.com", "team-data",
			func(b *v1beta1.StorageBucket) { b.Spec.Probe = v1beta1.ProbeSpec{} })
		Expect(k8s.Create(ctx, b, client.DryRunAll)).To(Succeed())
		Expect(b.Spec.Region).To(Equal("us-east-1"))
		Expect(b.Spec.AddressingStyle).To(Equal(v1beta1.AddressingPath))
		Expect(b.Spec.ManagementPolicy).To(Equal(v1beta1.BucketObserve))
		Expect(b.Spec.DeletionPolicy).To(Equal(v1beta1.BucketRetain))
		Expect(b.Spec.Probe).To(Equal(v1beta1.ProbeSpec{PeriodSeconds: 60, TimeoutSeconds: 10, FailureThreshold: 3}))
	}, SpecTimeout(time.Minute))

	It("keeps what the bucket is, and lets the rest change", func(ctx SpecContext) {
		namespace := place(ctx)
		observed := given(ctx, build(namespace, storage.Endpoint(), "team-data"))
		ours := given(ctx, build(namespace, storage.Endpoint(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
		refused := func(b *v1beta1.StorageBucket, f change, text string) {
			GinkgoHelper()
			// Again where the operator wrote in between.
			Eventually(ctx, func(ctx context.Context) error {
				changed := b.DeepCopy()
				if err := k8s.Get(ctx, client.ObjectKeyFromObject(b), changed); err != nil {
					return err
				}
				f(&changed.Spec)
				return k8s.Update(ctx, changed, client.DryRunAll)
			}).Should(MatchError(ContainSubstring(text)))
		}
		refused(observed, func(s *v1beta1.StorageBucketSpec) { s.BucketName = "other-data" }, "bucketName cannot be changed")
		refused(observed, func(s *v1beta1.StorageBucketSpec) { s.ManagementPolicy = v1beta1.BucketManage },
			"managementPolicy cannot be changed")
		refused(ours, func(s *v1beta1.StorageBucketSpec) { s.ManagementPolicy = v1beta1.BucketObserve },
			"managementPolicy cannot be changed")
		refused(ours, func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "https://s3.example.com" },
			"endpoint and region cannot be changed")
		refused(ours, func(s *v1beta1.StorageBucketSpec) { s.Region = "eu-west-1" }, "endpoint and region cannot be changed")
		operator.Change(ctx, k8s, observed,
			func(b *v1beta1.StorageBucket) { b.Spec.Endpoint, b.Spec.Region = "https://s3.example.com", "eu-west-1" })
		operator.Change(ctx, k8s, ours, func(b *v1beta1.StorageBucket) { b.Spec.DeletionPolicy = v1beta1.BucketDelete })
	}, SpecTimeout(time.Minute))

	It("shows the bucket, how it stands and when it was looked at", func(ctx SpecContext) {
		name := bucketOnServer(ctx)
		b := given(ctx, build(place(ctx), storage.Endpoint(), name))
		eventuallyReady(ctx, b)
		columns, cells := suite.Table(ctx, "storagebuckets", b.Namespace, b.Name)
		Expect(columns).To(Equal([]string{"Name/0", "Bucket/0", "Ready/0", "Reason/0", "LastProbe/0", "Policy/1",
			"Endpoint/1", "Age/0"}))
		Expect(cells[:4]).To(Equal([]any{b.Name, name, "True", "ProbeSucceeded"}))
		Expect(cells[4]).To(MatchRegexp(`^\d+s$`))
		Expect(cells[5:7]).To(Equal([]any{"Observe", storage.Endpoint()}))
		By("showing when it was probed where it has never been well, too")
		missing := given(ctx, build(b.Namespace, storage.Endpoint(), "no-such-bucket"))
		eventually(ctx, missing, metav1.ConditionFalse, v1beta1.ReasonBucketNotFound)
		_, cells = suite.Table(ctx, "storagebuckets", b.Namespace, missing.Name)
		Expect(cells[4]).To(MatchRegexp(`^\d+s$`))
	}, SpecTimeout(time.Minute))

	It("has the Ready condition from the first status on, so that kubectl wait works from the creation",
		func(ctx SpecContext) {
			b := given(ctx, build(place(ctx), storage.Endpoint(), bucketOnServer(ctx)))
			out, err := suite.Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=30s", "-n", b.Namespace,
				"storagebucket/"+b.Name)
			Expect(err).NotTo(HaveOccurred(), out)
			first := b.DeepCopy()
			suite.FirstStatus("storagebuckets", first)
			Expect(first).To(expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded))
		}, SpecTimeout(time.Minute))

	It("is read by kstatus as it is meant", func(ctx SpecContext) {
		namespace := place(ctx)
		well := given(ctx, build(namespace, storage.Endpoint(), bucketOnServer(ctx)))
		broken := given(ctx, build(namespace, "http://169.254.169.254", "data"))
		Expect(operator.Kstatus(well)).To(Equal(status.InProgressStatus), "before the operator has seen it")
		eventuallyReady(ctx, well)
		eventually(ctx, broken, metav1.ConditionFalse, v1beta1.ReasonEndpointForbidden)
		for b, want := range map[*v1beta1.StorageBucket]status.Status{well: status.CurrentStatus,
			broken: status.FailedStatus} {
			Expect(operator.Kstatus(b)).To(Equal(want), "%v", b.Status)
		}
	}, SpecTimeout(time.Minute))

	DescribeTable("lets what was stored under another rule be changed in other ways",
		func(ctx SpecContext, field string, invalid change, message string) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "storagebuckets.leasehold.dev"}}
			set := func(ctx context.Context, rules apiextensionsv1.ValidationRules) {
				operator.Change(ctx, k8s, crd, func(c *apiextensionsv1.CustomResourceDefinition) {
					properties := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
					schema := properties[field]
					schema.XValidations = rules
					properties[field] = schema
				})
			}
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
			rules := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties[field].XValidations
			Expect(rules).NotTo(BeEmpty())
			old := build(place(ctx), storage.Endpoint(), "team-data", managed(v1beta1.BucketRetain),
				func(b *v1beta1.StorageBucket) { invalid(&b.Spec) })
			refused := func(ctx context.Context) error { return k8s.Create(ctx, old.DeepCopy(), client.DryRunAll) }
			restore := func(ctx context.Context) {
				set(ctx, rules)
				another := old.DeepCopy()
				another.Name, another.ResourceVersion, another.UID = operator.Unique("another"), "", ""
				Eventually(ctx, func(ctx context.Context) error { return k8s.Create(ctx, another.DeepCopy(), client.DryRunAll) }).
					Should(MatchError(ContainSubstring(message)))
			}
			set(ctx, nil)
			DeferCleanup(restore)
			Eventually(ctx, refused).Should(Succeed())
			given(ctx, old)
			restore(ctx)

			operator.Change(ctx, k8s, old,
				func(b *v1beta1.StorageBucket) { b.Labels = map[string]string{"example.com/team": "x"} })
			operator.Change(ctx, k8s, old, func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds = 20 })
			Eventually(ctx, operator.Fetched(k8s, old)).WithTimeout(expect.Medium).
				Should(expect.HaveFinalizer(v1beta1.StorageBucketFinalizer))
			suite.NeedsKubernetes(33, "which judges writes of a status, too, by what they change")
			Eventually(ctx, operator.Fetched(k8s, old)).WithTimeout(expect.Medium).Should(expect.HaveObservedGeneration(),
				"the operator must be able to work on it too")
		},
		Entry("a name", Serial, SpecTimeout(time.Minute), "bucketName",
			func(s *v1beta1.StorageBucketSpec) { s.BucketName = "xn--old" }, "must not start with 'xn--'"),
		Entry("a port", Serial, SpecTimeout(time.Minute), "endpoint",
			func(s *v1beta1.StorageBucketSpec) { s.Endpoint = "http://127.0.0.1:99999" }, "and if a port"),
	)
})

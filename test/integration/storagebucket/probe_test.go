package storagebucket_test

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("Probing a bucket", func() {
	It("finds it well, says so once and leaves no trace on it", func(ctx SpecContext) {
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

	DescribeTable("names what it finds by the S3 service's answer",
		func(ctx SpecContext, reason string, rule fault.Fault) {
			proxy, name := through(fault.Options{}), bucketOnServer(ctx)
			injection := proxy.Inject(fault.Rule{Fault: rule})
			b := given(ctx, build(place(ctx), proxy.URL(), name, probing(10, 2, 1)))
			eventually(ctx, b, metav1.ConditionFalse, reason)
			Expect(injection.Happened()).To(BeTrue())
			injection.Heal()
			// A new spec is probed at once. That the schedule finds a recovery is for the failure threshold.
			operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds++ })
			eventuallyReady(ctx, b)
		},
		Entry("301 with another region", SpecTimeout(time.Minute), v1beta1.ReasonRegionMismatch,
			fault.Answer{Status: http.StatusMovedPermanently, Header: http.Header{"X-Amz-Bucket-Region": {"eu-west-1"}}}),
		Entry("301 whose body tells", SpecTimeout(time.Minute), v1beta1.ReasonRegionMismatch,
			fault.S3Error(http.StatusMovedPermanently, "PermanentRedirect")),
		Entry("302", SpecTimeout(time.Minute), v1beta1.ReasonEndpointForbidden,
			fault.Answer{Status: http.StatusFound, Header: http.Header{"Location": {"http://127.0.0.2:1/"}}}),
		Entry("400, signed for another region", SpecTimeout(time.Minute), v1beta1.ReasonRegionMismatch,
			fault.S3Error(http.StatusBadRequest, "AuthorizationHeaderMalformed")),
		Entry("400 of another kind", SpecTimeout(time.Minute), v1beta1.ReasonServerError,
			fault.S3Error(http.StatusBadRequest, "InvalidRequest")),
		Entry("403, no access", SpecTimeout(time.Minute), v1beta1.ReasonAccessDenied,
			fault.S3Error(http.StatusForbidden, "AccessDenied")),
		Entry("403, unknown key", SpecTimeout(time.Minute), v1beta1.ReasonInvalidCredentials,
			fault.S3Error(http.StatusForbidden, "InvalidAccessKeyId")),
		Entry("403, wrong secret", SpecTimeout(time.Minute), v1beta1.ReasonInvalidCredentials,
			fault.S3Error(http.StatusForbidden, "SignatureDoesNotMatch")),
		Entry("403 without S3's words", SpecTimeout(time.Minute), v1beta1.ReasonAccessDenied,
			fault.Answer{Status: http.StatusForbidden, Body: "<html>no</html>"}),
		Entry("404", SpecTimeout(time.Minute), v1beta1.ReasonBucketNotFound,
			fault.S3Error(http.StatusNotFound, "NoSuchBucket")),
		Entry("429", SpecTimeout(time.Minute), v1beta1.ReasonThrottled,
			fault.S3Error(http.StatusTooManyRequests, "TooManyRequests")),
		Entry("503, slow down", SpecTimeout(time.Minute), v1beta1.ReasonThrottled,
			fault.S3Error(http.StatusServiceUnavailable, "SlowDown")),
		Entry("500", SpecTimeout(time.Minute), v1beta1.ReasonServerError,
			fault.S3Error(http.StatusInternalServerError, "InternalError")),
		Entry("not HTTP at all", SpecTimeout(time.Minute), v1beta1.ReasonServerError, fault.Garbage{}),
		Entry("headers that take for ever", SpecTimeout(time.Minute), v1beta1.ReasonProbeTimeout,
			fault.Drip{Every: 100 * time.Millisecond}),
		Entry("no answer", SpecTimeout(time.Minute), v1beta1.ReasonProbeTimeout, fault.BlackHole{}),
		Entry("an answer that comes too late", SpecTimeout(time.Minute), v1beta1.ReasonProbeTimeout,
			fault.Delay{At: fault.AfterAnswer, For: 5 * time.Second}),
		Entry("a connection cut before the request is passed on", SpecTimeout(time.Minute), v1beta1.ReasonEndpointUnreachable,
			fault.Cut{At: fault.BeforeForward}),
		Entry("a connection cut before the answer", SpecTimeout(time.Minute), v1beta1.ReasonEndpointUnreachable,
			fault.Cut{At: fault.AfterAnswer}),
	)

	It("is not held up by a body without an end", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), bucketOnServer(ctx)
		denied := proxy.Inject(fault.Rule{Match: fault.Match{Methods: []string{http.MethodHead}},
			Fault: fault.Answer{Status: http.StatusForbidden}})
		endless := proxy.Inject(fault.Rule{Match: fault.Match{Methods: []string{http.MethodGet}}, Fault: fault.Endless{}})
		b := given(ctx, build(place(ctx), proxy.URL(), name, probing(10, 5, 1)))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonAccessDenied)
		Expect(denied.Happened()).To(BeTrue())
		Expect(endless.Happened()).To(BeTrue())
	}, SpecTimeout(time.Minute))

	DescribeTable("names what it finds below HTTP", func(ctx SpecContext, reason string, scheme string, wire fault.Wire) {
		proxy, name := through(fault.Options{Wire: fault.TLS}), bucketOnServer(ctx)
		namespace := place(ctx)
		Expect(k8s.Create(ctx, &corev1.ConfigMap{ObjectMeta: named(namespace, "ca"),
			Data: map[string]string{"ca.crt": string(proxy.CA())}})).To(Succeed())
		if wire != "" {
			proxy.InjectWire(wire)
		}
		endpoint := scheme + proxy.URL()[len("https"):]
		b := given(ctx, build(namespace, endpoint, name, func(b *v1beta1.StorageBucket) {
			if scheme == "https" {
				b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca"}
			}
		}))
		status := metav1.ConditionFalse
		if reason == v1beta1.ReasonProbeSucceeded {
			status = metav1.ConditionTrue
		}
		eventually(ctx, b, status, reason)
	},
		Entry("good TLS", SpecTimeout(time.Minute), v1beta1.ReasonProbeSucceeded, "https", fault.Wire("")),
		Entry("unknown certificate authority", SpecTimeout(time.Minute), v1beta1.ReasonTLSVerificationFailed, "https",
			fault.UnknownCA),
		Entry("expired", SpecTimeout(time.Minute), v1beta1.ReasonTLSVerificationFailed, "https", fault.Expired),
		Entry("not valid yet", SpecTimeout(time.Minute), v1beta1.ReasonTLSVerificationFailed, "https", fault.NotYetValid),
		Entry("another host's certificate", SpecTimeout(time.Minute), v1beta1.ReasonTLSVerificationFailed, "https",
			fault.WrongHost),
		Entry("TLS 1.1", SpecTimeout(time.Minute), v1beta1.ReasonTLSVerificationFailed, "https", fault.OldTLS),
		Entry("no TLS where TLS is asked for", SpecTimeout(time.Minute), v1beta1.ReasonTLSVerificationFailed, "https",
			fault.Plain),
		Entry("TLS where none is asked for", SpecTimeout(time.Minute), v1beta1.ReasonServerError, "http", fault.Wire("")),
		Entry("closed at once", SpecTimeout(time.Minute), v1beta1.ReasonEndpointUnreachable, "https", fault.Reset),
		Entry("silence", SpecTimeout(time.Minute), v1beta1.ReasonProbeTimeout, "https", fault.Silent),
	)

	It("does not trust a certificate without its authority", func(ctx SpecContext) {
		proxy := through(fault.Options{Wire: fault.TLS})
		b := given(ctx, build(place(ctx), proxy.URL(), bucketOnServer(ctx)))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonTLSVerificationFailed)
		By("naming a ConfigMap that is not there, then one without certificates")
		operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) {
			b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca"}
		})
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonTLSVerificationFailed)
		Eventually(ctx, operator.Fetched(k8s, b)).Should(HaveField("Status.Conditions", ContainElement(
			HaveField("Message", ContainSubstring("ConfigMap ca of spec.caBundleRef does not exist")))))
		ca := &corev1.ConfigMap{ObjectMeta: named(b.Namespace, "ca"), Data: map[string]string{"ca.crt": "none"}}
		Expect(k8s.Create(ctx, ca)).To(Succeed())
		Eventually(ctx, operator.Fetched(k8s, b)).WithTimeout(expect.Medium).
			Should(HaveField("Status.Conditions", ContainElement(
				HaveField("Message", ContainSubstring("no PEM certificates")))))
		By("giving it the authority")
		operator.Change(ctx, k8s, ca, func(ca *corev1.ConfigMap) { ca.Data["ca.crt"] = string(proxy.CA()) })
		eventuallyReady(ctx, b)
	}, SpecTimeout(2*time.Minute))

	It("tells a server that is not there from one that has no such bucket, and from a name that does not resolve",
		func(ctx SpecContext) {
			namespace := place(ctx)
			gone := through(fault.Options{})
			Expect(gone.Close()).To(Succeed())
			refused := given(ctx, build(namespace, gone.URL(), "some-bucket"))
			missing := given(ctx, build(namespace, storage.Endpoint(), "no-such-bucket"))
			unknown := given(ctx, build(namespace, "http://no-such-host.invalid", "some-bucket"))
			eventually(ctx, refused, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
			eventually(ctx, missing, metav1.ConditionFalse, v1beta1.ReasonBucketNotFound)
			Eventually(ctx, operator.Fetched(k8s, unknown)).WithTimeout(expect.Medium).Should(Or(
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable),
				// On a machine whose resolver does not answer.
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonProbeTimeout)))
		}, SpecTimeout(time.Minute))

	It("tells what a real server makes of wrong credentials and missing rights", func(ctx SpecContext) {
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
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Credentials of a bucket", func() {
	It("are read anew at each probe: a rotation, a loss and a return need no restart", func(ctx SpecContext) {
		namespace, name := place(ctx), bucketOnServer(ctx)
		b := given(ctx, build(namespace, storage.Endpoint(), name))
		eventuallyReady(ctx, b)
		secret := &corev1.Secret{ObjectMeta: named(namespace, credentials)}
		operator.Change(ctx, k8s, secret, func(s *corev1.Secret) {
			s.Data[v1beta1.SecretKeySecretAccessKey] = []byte("rotated-to-something-wrong")
		})
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonInvalidCredentials)
		Expect(b).To(stalled(v1beta1.ReasonInvalidCredentials))

		Expect(k8s.Delete(ctx, secret)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonCredentialsNotFound)
		Expect(b).To(stalled(v1beta1.ReasonCredentialsNotFound))
		Expect(b.Status.ObservedSecretResourceVersion).To(BeEmpty())

		back := keys(ctx, namespace, credentials, storage.Account())
		eventuallyReady(ctx, b)
		Expect(b.Status.ObservedSecretResourceVersion).To(Equal(back.ResourceVersion))
		Eventually(ctx, reasonsOf(b)).Should(Equal([]string{
			"Normal BucketHealthy", "Warning CredentialsRejected", "Warning CredentialsRejected", "Normal BucketHealthy",
		}))
	}, SpecTimeout(2*time.Minute))

	It("lack a key visibly, and may end in a line break", func(ctx SpecContext) {
		namespace, name := place(ctx), bucketOnServer(ctx)
		partial := keys(ctx, namespace, "partial", env.S3Account{AccessKey: storage.Account().AccessKey})
		b := given(ctx, build(namespace, storage.Endpoint(), name,
			func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "partial" }))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonCredentialsNotFound)
		Expect(b.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("AWS_SECRET_ACCESS_KEY"))))
		operator.Change(ctx, k8s, partial, func(s *corev1.Secret) {
			s.Data[v1beta1.SecretKeySecretAccessKey] = []byte(storage.Account().SecretKey + "\n")
		})
		eventuallyReady(ctx, b)
	}, SpecTimeout(time.Minute))
})

var _ = Describe("The failure threshold", func() {
	It("holds Ready for two failures of three, flips once, and back at one success: two events", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), bucketOnServer(ctx)
		b := given(ctx, build(place(ctx), proxy.URL(), name, probing(10, 2, 3)))
		eventuallyReady(ctx, b)
		before := len(probes(proxy, name))
		injection := proxy.Inject(fault.Rule{Fault: fault.Cut{At: fault.BeforeForward}})
		for failures := range 2 {
			Eventually(injection.Count).WithTimeout(expect.Medium).Should(Equal(failures + 1))
			Eventually(ctx, operator.Fetched(k8s, b)).Should(And(
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded),
				HaveField("Status.Conditions",
					ContainElement(HaveField("Message", HavePrefix([]string{"1 of 3", "2 of 3"}[failures]))))))
		}
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
		Expect(injection.Count()).To(Equal(3))
		injection.Heal()
		eventuallyReady(ctx, b)
		Expect(len(probes(proxy, name)) - before).To(Equal(4))
		Eventually(ctx, reasonsOf(b)).
			Should(Equal([]string{"Normal BucketHealthy", "Warning BucketUnhealthy", "Normal BucketHealthy"}))
	}, SpecTimeout(2*time.Minute))

	It("leaves Ready unknown where nothing was ever known", func(ctx SpecContext) {
		proxy := through(fault.Options{})
		proxy.Inject(fault.Rule{Fault: fault.Cut{At: fault.BeforeForward}})
		b := given(ctx, build(place(ctx), proxy.URL(), bucketOnServer(ctx), probing(10, 2, 2)))
		eventually(ctx, b, metav1.ConditionUnknown, v1beta1.ReasonProbePending)
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
	}, SpecTimeout(time.Minute))

	It("sees a server come back that hung and one that died", func(ctx SpecContext) {
		server, err := env.StartS3(ctx, env.S3Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Stop)
		namespace := place(ctx)
		keys(ctx, namespace, "its-keys", server.Account())
		Expect(server.Client().MakeBucket(ctx, "data", minioDefaults)).To(Succeed())
		b := given(ctx, build(namespace, server.Endpoint(), "data", probing(10, 2, 1), func(b *v1beta1.StorageBucket) {
			b.Spec.CredentialsSecretRef.Name = "its-keys"
		}))
		eventuallyReady(ctx, b)
		Expect(server.Pause(ctx)).To(Succeed())
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonProbeTimeout)
		Expect(server.Resume()).To(Succeed())
		eventuallyReady(ctx, b)
		server.Kill()
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
		Expect(wait.PollUntilContextTimeout(ctx, expect.Poll, expect.Short, true, func(ctx context.Context) (bool, error) {
			return server.Restart(ctx) == nil, nil
		})).To(Succeed())
		eventuallyReady(ctx, b)
	}, SpecTimeout(3*time.Minute))
})

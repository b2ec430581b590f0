// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/s3server"
	"leasehold.dev/test/integration/internal/operator"
)

// listener counts the connections to an address that the operator must not dial.
func listener(ctx context.Context, address string) (port int, accepted *atomic.Int32) {
	GinkgoHelper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		Skip("needs the address " + address + ": " + err.Error())
	}
	accepted = &atomic.Int32{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	DeferCleanup(l.Close)
	return l.Addr().(*net.TCPAddr).Port, accepted
}

// s3Stub answers every request by a function and records the headers.
type s3Stub struct {
	*httptest.Server
	mu      sync.Mutex
	headers []http.Header
}

func newS3Stub(handle http.HandlerFunc) *s3Stub {
	s := &s3Stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.headers = append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		handle(w, r)
	}))
	DeferCleanup(s.Close)
	return s
}

func (s *s3Stub) got() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers
}

var _ = Describe("References of a bucket", func() {
	It("reach into its own namespace only", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), bucketOnServer(ctx)
		elsewhere, here := place(ctx), &corev1.Namespace{ObjectMeta: named("", operator.Unique("bare"))}
		Expect(k8s.Create(ctx, here)).To(Succeed())
		suite.DeleteNamespaceAfter(here.Name)
		position := suite.AuditPosition()
		b := given(ctx, build(here.Name, proxy.URL(), name))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonCredentialsNotFound)
		Expect(b).To(stalled(v1beta1.ReasonCredentialsNotFound))
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: elsewhere, Name: credentials}, &corev1.Secret{})).To(Succeed())
		Expect(proxy.Journal().Connections).To(BeEmpty())

		By("reading every request of the operator for a Secret or a ConfigMap")
		Eventually(func(g Gomega) {
			reads := suite.Reads(position, record.Resource("", "secrets"))
			g.Expect(reads).To(ContainElement("get secrets " + here.Name + "/" + credentials))
			for _, read := range suite.Reads(position, record.InNamespace(here.Name)) {
				g.Expect(read).To(Equal("get secrets " + here.Name + "/" + credentials))
			}
			for _, read := range suite.Reads(position, record.Resource("", "secrets"),
				record.Not(record.InNamespace(operator.Namespace))) { // each replica watches its certificate
				g.Expect(read).To(HavePrefix("get "), "never list nor watch")
			}
		}).Should(Succeed())
	}, SpecTimeout(time.Minute))
})

// The tables of the package s3 test the guard with all kinds of addresses and redirects.
var _ = Describe("The guard of addresses", operator.OldestKubernetes, func() {
	It("sends no byte to denied addresses", func(ctx SpecContext) {
		port, accepted := listener(ctx, "127.0.0.2:0")
		b := given(ctx, build(place(ctx), fmt.Sprintf("http://127.0.0.2:%d", port), "some-bucket"))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointForbidden)
		Expect(b).To(stalled(v1beta1.ReasonEndpointForbidden))
		Expect(accepted.Load()).To(BeZero())
		Eventually(ctx, reasonsOf(b)).Should(Equal([]string{"Warning EndpointForbidden"}))
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Requests to a bucket", func() {
	It("are signed with the Secret's keys, and have neither a token nor values of the environment", func(ctx SpecContext) {
		namespace := place(ctx)
		keys(ctx, namespace, "own", s3server.Account{AccessKey: "OWNKEYID", SecretKey: "own-secret"})
		// It would be Ready with the keys of the operator's environment.
		stub := newS3Stub(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.Header.Get("Authorization"), ambientKey) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, "<Error><Code>InvalidAccessKeyId</Code></Error>")
			}
		})
		none := given(ctx, build(namespace, stub.URL, "some-bucket",
			func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "missing" }))
		eventually(ctx, none, metav1.ConditionFalse, v1beta1.ReasonCredentialsNotFound)
		Expect(stub.got()).To(BeEmpty())
		own := given(ctx, build(namespace, stub.URL, "some-bucket",
			func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "own" }))
		eventually(ctx, own, metav1.ConditionFalse, v1beta1.ReasonInvalidCredentials)
		Expect(stub.got()).NotTo(BeEmpty())
		for _, header := range stub.got() {
			Expect(header.Get("Authorization")).To(HavePrefix("AWS4-HMAC-SHA256 Credential=OWNKEYID/"))
			Expect(header).NotTo(HaveKey("X-Amz-Security-Token"))
			all := fmt.Sprint(header)
			Expect(all).NotTo(Or(ContainSubstring("Bearer"), ContainSubstring("eyJ"), ContainSubstring(ambientKey)))
		}
	}, SpecTimeout(time.Minute))

	It("leave no secret in logs, events, status or metrics after any error", Serial, func(ctx SpecContext) {
		suite.NeedsProcesses()
		const secret, token = "SENTINEL-secret-access-key", "SENTINEL-session-token"
		namespace := place(ctx)
		sentinel := keys(ctx, namespace, "sentinel", s3server.Account{AccessKey: "SENTINELKEYID", SecretKey: secret})
		operator.Change(ctx, k8s, sentinel, func(s *corev1.Secret) { s.Data[v1beta1.SecretKeySessionToken] = []byte(token) })
		// Some servers repeat the request in the error for a wrong signature.
		chatty := newS3Stub(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>%s %s %v</Message></Error>", secret,
				token, r.Header)
		})
		odd := newS3Stub(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Minio-Error-Desc", secret)
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(w, "%s %s %v", secret, token, r.Header)
		})
		var all []*v1beta1.StorageBucket
		for endpoint, reason := range map[string]string{
			chatty.URL: v1beta1.ReasonInvalidCredentials, odd.URL: v1beta1.ReasonServerError,
			storage.Endpoint(): v1beta1.ReasonInvalidCredentials, "http://169.254.169.254": v1beta1.ReasonEndpointForbidden,
		} {
			for _, with := range []func(*v1beta1.StorageBucket){func(*v1beta1.StorageBucket) {}, managed(v1beta1.BucketDelete)} {
				b := given(ctx, build(namespace, endpoint, operator.Unique("bucket"), with, func(b *v1beta1.StorageBucket) {
					b.Spec.CredentialsSecretRef.Name = "sentinel"
				}))
				eventually(ctx, b, metav1.ConditionFalse, reason)
				all = append(all, b)
			}
		}
		for _, b := range all {
			Expect(json.Marshal(b)).NotTo(ContainSubstring("SENTINEL"))
			list, err := expect.EventsAbout(k8s, b)(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Marshal(list)).NotTo(ContainSubstring("SENTINEL"))
		}
		Expect(operator.MetricsOf(ctx, suite.Leader(ctx))).
			To(And(ContainSubstring("leasehold_storagebucket_up"), Not(ContainSubstring("SENTINEL"))))
		for _, r := range suite.Replicas() {
			log, err := os.ReadFile(r.LogPath())
			Expect(err).NotTo(HaveOccurred())
			Expect(log).NotTo(BeEmpty())
			Expect(string(log)).NotTo(Or(ContainSubstring("SENTINEL"), ContainSubstring(storage.Account().SecretKey),
				ContainSubstring(ambientSecret)))
		}
	}, SpecTimeout(2*time.Minute))
})

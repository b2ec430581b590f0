// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// recorder is a test whose failures are recorded.
type recorder struct {
	*testing.T
	cleanups     []func()
	errors, logs []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}
func (r *recorder) Logf(f string, args ...any)   { r.logs = append(r.logs, fmt.Sprintf(f, args...)) }
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); panic(errFatal) }
func (r *recorder) Failed() bool                 { return len(r.errors) > 0 }

var errFatal = errors.New("a fatal failure of the recorded test")

// end ends the recorded test and returns its failures.
func (r *recorder) end() []string {
	for _, f := range r.cleanups {
		f()
	}
	return r.errors
}

// before is Before in front of an API server, whose config the change functions can change.
func before(t *testing.T, handler http.HandlerFunc, change ...func(*apiServer, *rest.Config)) (
	*recorder, kubernetes.Interface, *API) {
	t.Helper()
	s := startAPIServer(t, handler)
	cfg := s.config()
	for _, f := range change {
		f(s, cfg)
	}
	r := &recorder{T: t}
	cfg, api := Before(r, cfg)
	client, err := kubernetes.NewForConfig(cfg)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return r, client, api
}

func secrets(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	answers(w, runtime.ContentTypeJSON, http.StatusOK, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
}

func createSecret(t *testing.T, c kubernetes.Interface) error {
	t.Helper()
	_, err := c.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{}, metav1.CreateOptions{})
	return err
}

// envtest's config has a client certificate, which a proxy cannot pass through.
func TestBefore_AuthenticatesByClientCertificate(t *testing.T) {
	g := NewWithT(t)
	chain, key, err := cert.GenerateSelfSignedCertKey("admin", nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	var shown []string
	r, client, api := before(t, func(w http.ResponseWriter, r *http.Request) {
		for _, c := range r.TLS.PeerCertificates {
			shown = append(shown, c.Subject.CommonName)
		}
		answers(w, runtime.ContentTypeJSON, http.StatusOK, &corev1.Secret{})
	}, func(s *apiServer, cfg *rest.Config) {
		s.TLS.ClientAuth = tls.RequestClientCert
		cfg.BearerToken, cfg.CertData, cfg.KeyData = "", chain, key
	})
	g.Expect(api.config.CertData).To(BeEmpty(), "the manager needs no credentials of its own")
	g.Expect(createSecret(t, client)).To(Succeed())
	block, _ := pem.Decode(chain)
	own, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shown).To(ContainElement(own.Subject.CommonName))
	g.Expect(r.end()).To(BeEmpty())
}

func TestLoseAnswer(t *testing.T) {
	g, carried := NewWithT(t), 0
	r, client, api := before(t, func(w http.ResponseWriter, r *http.Request) { carried++; secrets(w, r) })
	lost := api.LoseAnswer("create", "secrets")
	g.Expect(createSecret(t, client)).NotTo(Succeed())
	g.Expect(carried).To(Equal(1), "the API server has carried it out")
	g.Expect(createSecret(t, client)).To(Succeed())
	g.Expect(lost.Count()).To(Equal(1))
	g.Expect(r.end()).To(BeEmpty(), "a rule for one request is over with it")
}

func TestRefuse_NamesTheLine(t *testing.T) {
	g := NewWithT(t)
	r, client, api := before(t, secrets)
	api.Refuse("create", "secrets", http.StatusConflict)
	err := createSecret(t, client)
	g.Expect(apierrors.IsConflict(err)).To(BeTrue())
	g.Expect(err).To(MatchError(MatchRegexp(
		`injected: the next create of secrets is refused with 409 \(suite_test\.go:\d+\)`)))
	g.Expect(r.end()).To(BeEmpty())
}

func TestLeftoversFailTheTest(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(t *testing.T, api *API, c kubernetes.Interface)
		want  string
	}{
		"never happened": {func(_ *testing.T, api *API, _ kubernetes.Interface) { api.LoseAnswer("delete", "secrets") },
			`^the answer to the next delete of secrets is lost \(suite_test\.go:\d+\): this never happened`},
		"another resource": {func(t *testing.T, api *API, c kubernetes.Interface) {
			t.Helper()
			api.Refuse("create", "secrets.example.com", http.StatusForbidden)
			NewWithT(t).Expect(createSecret(t, c)).To(Succeed())
		}, "this never happened"},
		"an unknown verb": {func(_ *testing.T, api *API, _ kubernetes.Interface) { api.LoseAnswer("get", "secrets") },
			`verb "get": use create, update, patch or delete`},
		"a restart of nothing": {func(_ *testing.T, api *API, _ kubernetes.Interface) { api.Restart() }, "call Start first"},
		"a manager that ends": {func(t *testing.T, api *API, _ kubernetes.Interface) {
			t.Helper()
			ended := make(chan struct{})
			api.Start(func(context.Context, *rest.Config) error { defer close(ended); return errors.New("boom") })
			<-ended
		}, "running the manager: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			r, client, api := before(t, secrets)
			func() {
				defer func() { _ = recover() }() // a fatal failure of the recorded test
				tc.leave(t, api, client)
			}()
			NewWithT(t).Expect(r.end()).To(ContainElement(MatchRegexp(tc.want)))
		})
	}
}

func TestFailedTest_LogsWhatHappened(t *testing.T) {
	g := NewWithT(t)
	r, client, api := before(t, secrets)
	api.Refuse("create", "secrets", http.StatusConflict)
	api.LoseAnswer("delete", "secrets")
	g.Expect(createSecret(t, client)).NotTo(Succeed())
	r.Errorf("an assertion")
	g.Expect(r.end()).To(ConsistOf("an assertion"))
	g.Expect(r.logs).To(ConsistOf(MatchRegexp(`refused with 409 .*: this happened 1 time`),
		MatchRegexp(`delete of secrets is lost .*: this happened 0 time`)))
}

// A held watch happens with its first event, and has to be healed.
func TestHoldEvents_MustBeHealed(t *testing.T) {
	for _, heals := range []bool{true, false} {
		g := NewWithT(t)
		w := startWatching(t, runtime.ContentTypeJSON)
		r := &recorder{T: t}
		api := &API{Proxy: w.proxy, t: r, direct: http.DefaultClient}
		held := api.HoldEvents("namespaces")
		watched := w.open(t)
		w.send(t, "ADDED", "a")
		g.Eventually(held.Happened, eventually).Should(BeTrue())
		if heals {
			held.Heal()
			g.Eventually(watched.ResultChan(), eventually).Should(Receive())
		}
		api.end()
		if heals {
			g.Expect(r.errors).To(BeEmpty())
			continue
		}
		g.Expect(r.errors).To(ConsistOf(MatchRegexp(`held back \(suite_test\.go:\d+\): this was in force until the end`)))
	}
}

func TestPathsOf(t *testing.T) {
	for _, tc := range []struct {
		resource, path string
		matches        bool
	}{
		{"pods", "/api/v1/pods", true},
		{"pods", "/api/v1/namespaces/a/pods", true},
		{"pods", "/api/v1/namespaces/a/pods/b", true},
		{"pods", "/api/v1/namespaces/a/pods/b/status", true},
		{"pods", "/apis/metrics.k8s.io/v1/namespaces/a/pods", false},
		{"pods", "/api/v1/namespaces/pods", false},
		{"pods", "/api/v1/podtemplates", false},
		{"namespaces", "/api/v1/namespaces/a", true},
		{"namespaces", "/api/v1/namespaces/a/finalize", true},
		{"namespaces", "/api/v1/namespaces/a/pods", false},
		{"deployments.apps", "/apis/apps/v1/namespaces/a/deployments/b", true},
		{"deployments.apps", "/apis/apps/v1/namespaces/a/deployments/b/scale", true},
		{"deployments.apps", "/apis/apps/v1/namespaces/deployments/replicasets", false},
		{"deployments", "/apis/apps/v1/namespaces/a/deployments", false},
		{"widgets.a.b", "/apis/a.b/v1beta1/widgets", true},
		{"widgets.a.b", "/apis/aXb/v1beta1/widgets", false},
	} {
		if got := pathsOf(tc.resource).MatchString(tc.path); got != tc.matches {
			t.Errorf("pathsOf(%q) matches %s: %t, want %t", tc.resource, tc.path, got, tc.matches)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const host = "webhooks.test.svc"

var key = types.NamespacedName{Namespace: "test", Name: "serving"}

// authority issues certificates as the rotator does.
type authority struct {
	issuer rotator.CertRotator
	ca     *rotator.KeyPairArtifacts
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{issuer: rotator.CertRotator{
		CAName: "ca", DNSName: host, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}}
	ca, err := a.issuer.CreateCACert(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	a.ca = ca
	return a
}

func (a *authority) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	cert, privateKey, err := a.issuer.CreateCertPEM(a.ca, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{
		"ca.crt": a.ca.CertPEM, "ca.key": a.ca.KeyPEM, "tls.crt": cert, "tls.key": privateKey,
	}}
}

func newSource(t *testing.T) *Source {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	source, err := NewSource(key)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestSource_serves_previous_certificate_if_Secret_is_broken(t *testing.T) {
	good := newAuthority(t)
	other := good.secret(t)
	cases := map[string]map[string][]byte{
		"NoKey":        {"tls.crt": other.Data["tls.crt"]},
		"NoCert":       {"tls.key": other.Data["tls.key"]},
		"Garbage":      {"tls.crt": []byte("garbage"), "tls.key": []byte("garbage")},
		"OthersKey":    {"tls.crt": other.Data["tls.crt"], "tls.key": newAuthority(t).secret(t).Data["tls.key"]},
		"SwappedParts": {"tls.crt": other.Data["tls.key"], "tls.key": other.Data["tls.crt"]},
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			source := newSource(t)
			fresh, err := source.load(good.secret(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := source.load(&corev1.Secret{Data: data}); err == nil {
				t.Error("load() = nil, want an error")
			}
			if served, err := source.GetCertificate(nil); err != nil || !served.Leaf.Equal(fresh.Leaf) {
				t.Errorf("GetCertificate() = %v, %v, want the certificate from before", served, err)
			}
		})
	}
}

func TestSource_serves_if_copy_fails(t *testing.T) {
	source := newSource(t)
	if err := os.Remove(source.signDir); err != nil {
		t.Fatal(err)
	}
	_, err := source.load(newAuthority(t).secret(t))
	if err == nil || !strings.Contains(err.Error(), "writing the rotator's copy") {
		t.Errorf("load() = %v, want an error about the copy", err)
	}
	if _, err := source.GetCertificate(nil); err != nil {
		t.Error(err)
	}
}

func TestNewSource_needs_temporary_directory(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if _, err := NewSource(key); err == nil || !strings.Contains(err.Error(), "creating the directory") {
		t.Errorf("NewSource() = %v, want an error about the directory", err)
	}
}

// The source serves each new certificate and logs it once. It logs a broken Secret and continues to
// serve the previous certificate. The cache drops the CA's key. The directory has the certificate as
// soon as it is served, never its key, and Start removes it.
func TestSource_follows_Secret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, &corev1.Secret{})
		_, source := newManager(t, c)
		var written bytes.Buffer
		ctx, stop := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(name, args string) {
			written.WriteString(name + ": " + args)
		}, funcr.Options{})))
		done := make(chan error, 1)
		go func() { done <- source.Start(ctx) }()
		first, second := newAuthority(t).secret(t).Data, newAuthority(t).secret(t).Data
		const (
			renewed = `serving-certificate: "level"=0 "msg"="serving a new certificate" "secret"="test/serving"` +
				` "notBefore"="1999-12-31 23:00:00 +0000 UTC" "notAfter"="2000-01-01 01:00:00 +0000 UTC"`
			broken = `serving-certificate: "msg"="cannot load the serving certificate, so the previous certificate stays in use; correct tls.crt and tls.key in the Secret"` +
				` "error"="parsing tls.crt and tls.key: tls: private key does not match public key" "secret"="test/serving"`
		)
		for _, step := range []struct {
			what   string
			data   map[string][]byte
			serves []byte // the certificate
			logged string
		}{
			{"it is empty", nil, nil, ""},
			{"it is filled", first, first["tls.crt"], renewed},
			{"another key of the CA alone", map[string][]byte{"tls.crt": first["tls.crt"], "tls.key": first["tls.key"],
				"ca.key": second["ca.key"]}, first["tls.crt"], ""},
			{"the key is of another", map[string][]byte{"tls.crt": second["tls.crt"], "tls.key": first["tls.key"]},
				first["tls.crt"], broken},
			{"it is whole again", second, second["tls.crt"], renewed},
			{"it is emptied", nil, second["tls.crt"], ""},
			{"it is emptied otherwise", map[string][]byte{"tls.crt": {}, "tls.key": {}}, second["tls.crt"], ""},
			{"it is filled again", first, first["tls.crt"], renewed},
		} {
			written.Reset()
			stored := &corev1.Secret{}
			if err := c.Get(ctx, key, stored); err != nil {
				t.Fatal(err)
			}
			stored.Data = step.data
			if err := c.Update(ctx, stored); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			synctest.Wait()
			var serves []byte
			current, err := source.GetCertificate(nil)
			if err == nil {
				serves = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: current.Leaf.Raw})
			} else if !strings.Contains(err.Error(), "no serving certificate yet: Secret test/serving") {
				t.Errorf("%s: %v, want it to name the Secret", step.what, err)
			}
			sign, _ := os.ReadFile(filepath.Join(source.signDir, "tls.crt")) // missing before the first one
			if files, err := os.ReadDir(source.signDir); err != nil || !bytes.Equal(sign, serves) || len(files) > 1 {
				t.Errorf("%s: the directory has %v (%v), want the certificate that is served", step.what, files, err)
			}
			if !bytes.Equal(serves, step.serves) {
				t.Errorf("%s: it serves\n%s, want\n%s", step.what, serves, step.serves)
			}
			if diff := cmp.Diff(step.logged, written.String()); diff != "" {
				t.Errorf("%s: the log (-want +got):\n%s", step.what, diff)
			}
		}
		var kept corev1.Secret
		if err := source.cache.Get(ctx, key, &kept); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"tls.crt", "tls.key"}, slices.Sorted(maps.Keys(kept.Data))); diff != "" {
			t.Errorf("the cache keeps (-want +got):\n%s", diff)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
		if _, err := os.Stat(source.signDir); !os.IsNotExist(err) {
			t.Errorf("the directory of the rotator's copy is left behind (%v)", err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRotatorReadsOneSecret(t *testing.T) {
	const selected = "fieldSelector=metadata.name%3Dserving"
	cases := map[string]struct{ method, url, want string }{
		"List":      {http.MethodGet, "/api/v1/namespaces/test/secrets?limit=500", selected + "&limit=500"},
		"Watch":     {http.MethodGet, "/api/v1/namespaces/test/secrets?watch=true", selected + "&watch=true"},
		"One":       {http.MethodGet, "/api/v1/namespaces/test/secrets/serving", ""},
		"Other":     {http.MethodGet, "/api/v1/namespaces/test/configmaps?limit=500", "limit=500"},
		"Elsewhere": {http.MethodGet, "/api/v1/namespaces/other/secrets?limit=500", "limit=500"},
		"Write":     {http.MethodPost, "/api/v1/namespaces/test/secrets", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			transport := oneSecret{
				next:     roundTripper(func(r *http.Request) (*http.Response, error) { got = r; return nil, nil }),
				path:     "/api/v1/namespaces/test/secrets",
				selector: "metadata.name=serving",
			}
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "https://127.0.0.1"+tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			before := req.URL.RawQuery
			if _, err := transport.RoundTrip(req); err != nil { //nolint:bodyclose // there is no response
				t.Fatal(err)
			}
			if got.URL.RawQuery != tc.want {
				t.Errorf("query sent is %q, want %q", got.URL.RawQuery, tc.want)
			}
			if req.URL.RawQuery != before {
				t.Error("the caller's request was changed")
			}
		})
	}
}

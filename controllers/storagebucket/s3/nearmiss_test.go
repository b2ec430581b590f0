package s3

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"leasehold.dev/api/v1beta1"
)

// For each guard of the client, these tests check a value inside and a value outside its limit.

// A gateway redirects users without a session to an existing page, which is no bucket.
func TestRedirectsToSameHostAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, location := range map[string]string{"path": "/login", "URL": "", "itself": "/team-data"} {
			reached := 0
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/login" || r.URL.Query().Has("again") {
					reached++
					return // 200
				}
				to := location
				switch name {
				case "URL":
					to = "http://" + r.Host + "/login"
				case "itself":
					to += "?again"
				}
				http.Redirect(w, r, to, status)
			})
			if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonEndpointForbidden {
				t.Errorf("%d to a %s of the same host: %+v", status, name, got)
			}
			if err := c.Create(t.Context(), "k", "v"); err == nil {
				t.Errorf("%d to a %s of the same host: a bucket was created", status, name)
			}
			if reached > 0 {
				t.Errorf("%d to a %s of the same host was followed: %q", status, name, requests())
			}
		}
	}
}

func TestResponseHeaderIsBounded(t *testing.T) {
	for size, want := range map[int]string{
		maxHeaders - 1<<10: v1beta1.ReasonProbeSucceeded, // room for the other fields
		maxHeaders + 1<<12: v1beta1.ReasonServerError,    // net/http accepts a little more
	} {
		c, _ := serve(t, allowLoopback,
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", size)) })
		if got := c.Probe(t.Context()); got.Reason != want {
			t.Errorf("a header of %d bytes: %+v, want %s", size, got, want)
		}
	}
}

func TestResponseBodyIsBounded(t *testing.T) {
	const code = "<Error><Code>NoSuchBucket</Code></Error>"
	for size, want := range map[int]string{
		maxBody:     v1beta1.ReasonBucketNotFound,
		maxBody + 1: v1beta1.ReasonServerError, // the last byte is cut off, so the body is no valid XML
	} {
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			filler := strings.Repeat(" ", size-len(code))
			fmt.Fprint(w, strings.Replace(code, "</Error>", filler+"</Error>", 1))
		})
		if got := c.Probe(t.Context()); got.Reason != want && size <= maxBody {
			t.Errorf("a body of %d bytes: %+v, want %s", size, got, want)
		}
		body, err := c.send(t.Context(), http.MethodGet, listOneKey, nil)
		if len(body) != 0 || err == nil {
			t.Errorf("a 404 gave a body of %d bytes and %v", len(body), err)
		}
	}
	for _, size := range []int{maxBody - 1, maxBody, maxBody + 1} {
		c, _ := serve(t, allowLoopback,
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", size)) })
		body, err := c.send(t.Context(), http.MethodGet, listOneKey, nil)
		if err != nil || len(body) != min(size, maxBody) {
			t.Errorf("of %d bytes %d were read (%v), want at most %d", size, len(body), err, maxBody)
		}
	}
}

func TestOldTLSVersionsAreRejected(t *testing.T) {
	for version, want := range map[uint16]string{
		tls.VersionTLS11: v1beta1.ReasonTLSVerificationFailed,
		tls.VersionTLS12: v1beta1.ReasonProbeSucceeded,
		tls.VersionTLS13: v1beta1.ReasonProbeSucceeded,
	} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{MinVersion: version, MaxVersion: version}
		server.StartTLS()
		t.Cleanup(server.Close)
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		c, err := New(Target{Endpoint: server.URL, Region: "us-east-1", Bucket: "team-data", Roots: roots},
			Credentials{AccessKeyID: "key", SecretAccessKey: sentinel}, allowLoopback)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if got := c.Probe(t.Context()); got.Reason != want {
			t.Errorf("%s: %+v, want %s", tls.VersionName(version), got, want)
		}
	}
}

// Only a HEAD response with status 200 means that the bucket can be used.
func TestProbe_status_codes(t *testing.T) {
	for status := 200; status < 600; status++ {
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if got := c.Probe(t.Context()); got.OK() != (status == http.StatusOK) {
			t.Errorf("%d: %+v", status, got)
		}
		err := c.Create(t.Context(), "k", "v")
		if (err == nil) != (status == http.StatusOK || status == http.StatusNoContent) {
			t.Errorf("%d to the creation: %v", status, err)
		}
		c.Close()
	}
}

// No request accepts a compressed response, and none is decompressed: a small body could decompress
// to a large one.
func TestResponsesAreNotDecompressed(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	fmt.Fprint(writer, "<Error><Code>NoSuchBucket</Code></Error>")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("%s %s asks for %s", r.Method, r.URL, got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(packed.Bytes())
	})
	if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonServerError {
		t.Errorf("a compressed response was read: %+v", got)
	}
	_, _, tagErr := c.Tag(t.Context(), "key")
	for request, err := range map[string]error{
		"Tag": tagErr, "SetTag": c.SetTag(t.Context(), "key", "value"), "Create": c.Create(t.Context(), "key", "value"),
		"Remove": c.Remove(t.Context()),
	} {
		if err == nil || Code(err) != "" {
			t.Errorf("%s: the compressed response was read: %v, %q", request, err, Code(err))
		}
	}
	if len(requests()) < 6 {
		t.Errorf("requests %q, want each kind of request", requests())
	}
}

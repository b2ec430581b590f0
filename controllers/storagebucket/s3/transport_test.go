package s3

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leasehold.dev/api/v1beta1"
)

func TestForbiddenAddressesAreNotDialled(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			accepted <- conn
		}
		close(accepted)
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	// The name is checked by the addresses that it resolves to.
	for _, host := range []string{"127.0.0.1", "localhost"} {
		c, err := New(Target{Endpoint: fmt.Sprintf("http://%s:%d", host, port), Region: "us-east-1", Bucket: "team-data",
			Timeout: time.Minute},
			Credentials{AccessKeyID: "key", SecretAccessKey: sentinel}, Rules{})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonEndpointForbidden {
			t.Errorf("%s: %+v", host, got)
		}
		c.Close()
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if conn, some := <-accepted; some {
		t.Errorf("a connection was made: %v", conn.LocalAddr())
	}
}

// No redirect is followed, wherever it leads. A gateway redirects users without a session to an
// existing page, which is no bucket.
func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, location := range map[string]func(host string) string{
			"another host":       func(string) string { return elsewhere.URL },
			"a path of the host": func(string) string { return "/login" },
			"a URL of the host":  func(host string) string { return "http://" + host + "/login" },
			"the same path":      func(string) string { return "/team-data?again" },
		} {
			c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/login" || r.URL.Query().Has("again") {
					reached = true
					return // 200
				}
				http.Redirect(w, r, location(r.Host), status)
			})
			probe, create := c.Probe(t.Context()), VerdictOf(c.Create(t.Context(), "k", "v"))
			if probe.Reason != v1beta1.ReasonEndpointForbidden || create == nil ||
				create.Reason != v1beta1.ReasonEndpointForbidden || reached {
				t.Errorf("%d to %s: %+v, while creating %+v, followed: %t", status, name, probe, create, reached)
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
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
				w.Header().Set("X-Long", strings.Repeat("x", size))
			})
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
		body, _, err := c.send(t.Context(), http.MethodGet, listOneKey, nil)
		if len(body) != 0 || err == nil {
			t.Errorf("a 404 gave a body of %d bytes and %v", len(body), err)
		}
	}
	for _, size := range []int{maxBody - 1, maxBody, maxBody + 1} {
		c, _ := serve(t, allowLoopback,
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", size)) })
		body, _, err := c.send(t.Context(), http.MethodGet, listOneKey, nil)
		if err != nil || len(body) != min(size, maxBody) {
			t.Errorf("of %d bytes %d were read (%v), want at most %d", size, len(body), err, maxBody)
		}
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
			t.Errorf("%s %s accepts encodings %q", r.Method, r.URL, got)
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The guard gets each request. A rejected request is not sent.
func TestGuardChecksEachRequest(t *testing.T) {
	leads := true
	rules := allowLoopback
	rules.Guard = func(transport *http.Transport) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !leads {
				return nil, errors.New("this replica does not lead")
			}
			return transport.RoundTrip(r)
		})
	}
	c, requests := serve(t, rules, succeed)
	if verdict := c.Probe(t.Context()); !verdict.OK() || len(requests()) != 1 {
		t.Errorf("the leader's probe: %+v, %q", verdict, requests())
	}
	leads = false
	if verdict := c.Probe(t.Context()); verdict.OK() || len(requests()) != 1 {
		t.Errorf("a former leader's probe: %+v, %q", verdict, requests())
	}
	_, _, err := c.send(t.Context(), http.MethodPut, tagging, []byte("<Tagging/>"))
	if err == nil || len(requests()) != 1 {
		t.Errorf("a former leader's write: %v, %q", err, requests())
	}
}

// childEndpoint is set in the process that TestNoProxyIsUsed starts.
const childEndpoint = "LEASEHOLD_TEST_ENDPOINT"

// The client dials the endpoint itself. Through a proxy of the environment the rules would judge
// the proxy's address only. net/http uses no proxy for a loopback endpoint and reads the
// environment once for each process, so another process probes an endpoint elsewhere.
func TestNoProxyIsUsed(t *testing.T) {
	if endpoint, child := os.LookupEnv(childEndpoint); child {
		rules := Rules{Allow: prefixes("127.0.0.0/8"), Deny: prefixes("192.0.2.0/24")}
		c, err := New(Target{Endpoint: endpoint, Region: "us-east-1", Bucket: "team-data", Timeout: time.Minute},
			Credentials{AccessKeyID: "key", SecretAccessKey: sentinel}, rules)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonEndpointForbidden {
			t.Errorf("a denied endpoint behind a proxy: %+v", got)
		}
		return
	}
	var requests atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(proxy.Close)
	environment := os.Environ()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		environment = append(environment, name+"="+proxy.URL)
	}
	for _, endpoint := range []string{"http://192.0.2.1", "https://192.0.2.1"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyIsUsed$", "-test.v")
		child.Env = slices.Concat(environment, []string{childEndpoint + "=" + endpoint, "NO_PROXY=", "no_proxy="})
		if output, err := child.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", endpoint, err, output)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the proxy got %d requests", n)
	}
}

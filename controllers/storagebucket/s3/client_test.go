package s3

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/api/v1beta1"
)

// allowLoopback allows connections to the test servers.
var allowLoopback = Rules{Allow: prefixes("127.0.0.0/8", "::1/128")}

const sentinel = "SENTINEL-secret-access-key"

// serve starts a server. It returns a client for a bucket of the server, and the requests.
func serve(t *testing.T, rules Rules, handle http.HandlerFunc) (*Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r.Method+" "+r.URL.RequestURI())
		mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := New(Target{Endpoint: server.URL, Region: "us-east-1", Bucket: "team-data"},
		Credentials{AccessKeyID: "key", SecretAccessKey: sentinel}, rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}
}

func respondError(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>MARKER</Message></Error>", code)
}

func TestProbe_requests_code_after_ambiguous_HEAD(t *testing.T) {
	const head, list = "HEAD /team-data", "GET /team-data?list-type=2&max-keys=1"
	for name, tc := range map[string]struct {
		head, get int
		code      string
		asks      int
		want      string
	}{
		"200":            {200, 0, "", 1, v1beta1.ReasonProbeSucceeded},
		"404":            {404, 404, "NoSuchBucket", 2, v1beta1.ReasonBucketNotFound},
		"404 of a proxy": {404, 0, "", 2, v1beta1.ReasonServerError},
		"500":            {500, 0, "", 1, v1beta1.ReasonServerError},
		"503":            {503, 0, "", 1, v1beta1.ReasonThrottled},
		"204":            {204, 0, "", 1, v1beta1.ReasonServerError},
		"403, denied":    {403, 403, "AccessDenied", 2, v1beta1.ReasonAccessDenied},
		"403, signature": {403, 403, "SignatureDoesNotMatch", 2, v1beta1.ReasonInvalidCredentials},
		"400, region":    {400, 400, "AuthorizationHeaderMalformed", 2, v1beta1.ReasonRegionMismatch},
		"403, then 200":  {403, 200, "", 2, v1beta1.ReasonAccessDenied},
		"403, then 500":  {403, 500, "InternalError", 2, v1beta1.ReasonServerError},
		"301":            {301, 301, "PermanentRedirect", 2, v1beta1.ReasonRegionMismatch},
		"302":            {302, 0, "", 1, v1beta1.ReasonEndpointForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				switch {
				case r.Method == http.MethodHead:
					w.WriteHeader(tc.head)
				case tc.get == 0:
					http.NotFound(w, r)
				case tc.get == 200:
					fmt.Fprint(w, "<ListBucketResult><Name>team-data</Name></ListBucketResult>")
				default:
					respondError(w, tc.get, tc.code)
				}
			})
			got := c.Probe(t.Context())
			if got.Reason != tc.want || strings.Contains(got.Message, "MARKER") {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
			sent := requests()
			if len(sent) != tc.asks || sent[0] != head || (tc.asks == 2 && !strings.HasPrefix(sent[1], list)) {
				t.Errorf("requests %q, want %d", sent, tc.asks)
			}
		})
	}
}

func TestProbe_endless_body(t *testing.T) {
	var written int
	c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		if r.Method == http.MethodHead {
			return
		}
		for r.Context().Err() == nil {
			n, err := io.WriteString(w, strings.Repeat("<Error>", 1<<10))
			written += n
			if err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := c.Probe(ctx); got.Reason != v1beta1.ReasonAccessDenied {
		t.Errorf("an endless body: %+v, want the verdict on the HEAD response", got)
	}
	if ctx.Err() != nil {
		t.Error("it read on until its time was up")
	}
}

func TestProbe_truncated_response(t *testing.T) {
	for _, at := range []string{http.MethodHead, http.MethodGet} {
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == at {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusForbidden)
		})
		if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonEndpointUnreachable {
			t.Errorf("truncated in the %s: %+v", at, got)
		}
	}
}

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
		c, err := New(Target{Endpoint: fmt.Sprintf("http://%s:%d", host, port), Region: "us-east-1", Bucket: "team-data"},
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

func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		c, _ := serve(t, allowLoopback,
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonEndpointForbidden {
			t.Errorf("%d: %+v", status, got)
		}
		if err := c.Create(t.Context(), "k", "v"); VerdictOf(err) == nil ||
			VerdictOf(err).Reason != v1beta1.ReasonEndpointForbidden {
			t.Errorf("%d while creating: %v", status, err)
		}
	}
	if reached {
		t.Error("a redirect was followed")
	}
}

func TestCreate_tags_in_same_request(t *testing.T) {
	var body string
	c, requests := serve(t, allowLoopback, func(_ http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(content)
		if authorization := r.Header.Get("Authorization"); !strings.Contains(authorization, "Credential=key/") {
			t.Errorf("signed as %q", authorization)
		}
	})
	if err := c.Create(t.Context(), "owner", "uid-1"); err != nil {
		t.Fatal(err)
	}
	// Without a location, because S3 refuses the default one.
	const want = `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` +
		"<Tags><Tag><Key>owner</Key><Value>uid-1</Value></Tag></Tags></CreateBucketConfiguration>"
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PUT /team-data"}, requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestVirtualHost(t *testing.T) {
	var hosts, paths []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hosts, paths = append(hosts, r.Host), append(paths, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	c, err := New(Target{Endpoint: "http://s3.example.com:9000", Region: "eu-west-1", Bucket: "team-data",
		VirtualHost: true},
		Credentials{AccessKeyID: "key", SecretAccessKey: sentinel}, allowLoopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return allowLoopback.dialer().DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	if got := c.Probe(t.Context()); !got.OK() {
		t.Fatalf("probe: %+v", got)
	}
	if err := c.Create(t.Context(), "owner", "uid-1"); err != nil {
		t.Fatal(err)
	}
	for i := range hosts {
		if hosts[i] != "team-data.s3.example.com:9000" || paths[i] != "/" {
			t.Errorf("sent to %s for %s", hosts[i], paths[i])
		}
	}
	if len(hosts) != 2 {
		t.Errorf("%d requests, want 2", len(hosts))
	}
}

func TestCreate_server_without_tags(t *testing.T) {
	c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
		if content, _ := io.ReadAll(r.Body); strings.Contains(string(content), "<Tags>") {
			respondError(w, http.StatusBadRequest, codeMalformed)
		}
	})
	if err := c.Create(t.Context(), "owner", "uid-1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PUT /team-data", "PUT /team-data"}, requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestWriteErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		code   string
		status int
		do     func(context.Context, *Client) error
		want   string // reason; "" is a success
	}{
		"creating what we have": {CodeOwned, 409,
			func(ctx context.Context, c *Client) error { return c.Create(ctx, "k", "v") }, v1beta1.ReasonServerError},
		"creating without the right": {"AccessDenied", 403,
			func(ctx context.Context, c *Client) error { return c.Create(ctx, "k", "v") }, v1beta1.ReasonAccessDenied},
		"removing what is not empty": {"BucketNotEmpty", 409,
			func(ctx context.Context, c *Client) error { return c.Remove(ctx) }, v1beta1.ReasonBucketNotEmpty},
		"removing what is gone": {"NoSuchBucket", 404,
			func(ctx context.Context, c *Client) error { return c.Remove(ctx) }, ""},
		"no tags": {"NoSuchTagSet", 404, func(ctx context.Context, c *Client) error {
			_, _, err := c.Tag(ctx, "k")
			return err
		}, ""},
		"tags of no bucket": {"NoSuchBucket", 404, func(ctx context.Context, c *Client) error {
			_, _, err := c.Tag(ctx, "k")
			return err
		}, v1beta1.ReasonBucketNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) { respondError(w, tc.status, tc.code) })
			err := tc.do(t.Context(), c)
			if (err == nil) != (tc.want == "") || (err != nil && VerdictOf(err).Reason != tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if err != nil && (Code(err) != tc.code || strings.Contains(err.Error(), "MARKER")) {
				t.Errorf("got %q with code %q, want %q without text of the server", err, Code(err), tc.code)
			}
		})
	}
}

// Some servers remove a bucket with its objects; a 404 of a load balancer is not S3's.
func TestRemove_lists_first(t *testing.T) {
	for name, tc := range map[string]struct {
		list    func(http.ResponseWriter, *http.Request)
		want    string // reason; "" is a success
		removes bool
	}{
		"with an object": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult><Contents><Key>precious</Key></Contents></ListBucketResult>")
		}, v1beta1.ReasonBucketNotEmpty, false},
		"empty": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<ListBucketResult/>") }, "",
			true},
		"not to be listed": {func(w http.ResponseWriter, _ *http.Request) { respondError(w, 403, "AccessDenied") },
			v1beta1.ReasonAccessDenied, false},
		"not a list": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>welcome</html>") },
			v1beta1.ReasonServerError, false},
		"gone": {func(w http.ResponseWriter, _ *http.Request) { respondError(w, 404, "NoSuchBucket") }, "",
			false},
		"a balancer's words": {http.NotFound, v1beta1.ReasonServerError, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				tc.list(w, r)
			})
			v := VerdictOf(c.Remove(t.Context()))
			if (v == nil) != (tc.want == "") || (v != nil && v.Reason != tc.want) {
				t.Errorf("got %+v, want %q", v, tc.want)
			}
			if removes := slices.Contains(requests(), "DELETE /team-data"); removes != tc.removes {
				t.Errorf("requests %q, want a removal: %t", requests(), tc.removes)
			}
		})
	}
}

func TestTag_response_of_proxy(t *testing.T) {
	c, _ := serve(t, allowLoopback, http.NotFound)
	if _, _, err := c.Tag(t.Context(), "k"); VerdictOf(err) == nil || VerdictOf(err).Missing() {
		t.Errorf("a 404 that is not S3's: %v, want no verdict on the bucket", err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	creds := Credentials{AccessKeyID: "key", SecretAccessKey: sentinel, SessionToken: sentinel}
	if text := fmt.Sprintf("%v %+v %#v %s", creds, creds, creds, creds); strings.Contains(text, sentinel) {
		t.Errorf("printed %s", text)
	}
	_, err := New(Target{Endpoint: "http://user:" + sentinel + "@%zz"}, creds, allowLoopback)
	if err == nil || strings.Contains(err.Error(), sentinel) {
		t.Errorf("error %v", err)
	}
}

// FuzzAnswers lets a server send any response. The verdict must be one of the known messages.
func FuzzAnswers(f *testing.F) {
	f.Add(200, 200, "", "<ListBucketResult/>")
	f.Add(403, 403, "us-east-1", "<Error><Code>AccessDenied</Code></Error>")
	f.Add(301, 400, "", "<Error><Code>PermanentRedirect</Code><Region>x</Region></Error>")
	f.Add(400, 503, "\x00", "<Error><Code></Code>")
	f.Fuzz(func(t *testing.T, head, get int, region, body string) {
		valid := func(status int) bool { return status >= 200 && status < 1000 }
		if !valid(head) || !valid(get) || len(body) > 1<<20 {
			return
		}
		c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", region)
			if r.Method == http.MethodHead {
				w.WriteHeader(head)
				return
			}
			w.WriteHeader(get)
			_, _ = io.WriteString(w, body) // 204 and 304 allow no body
		})
		known := func(v Verdict) bool {
			return messages[v.Reason] != "" && (len(body) < 8 || !strings.Contains(v.Message, body))
		}
		if got := c.Probe(t.Context()); !known(got) || (got.OK() && head != 200) {
			t.Errorf("HEAD %d, GET %d: %+v", head, get, got)
		}
		if _, _, err := c.Tag(t.Context(), "owner"); err != nil && !known(*VerdictOf(err)) {
			t.Errorf("GET %d: %v", get, err)
		}
		if err := c.Create(t.Context(), "owner", "uid"); (err == nil && get >= 300) ||
			(err != nil && !known(*VerdictOf(err))) {
			t.Errorf("PUT %d: %v", get, err)
		}
	})
}

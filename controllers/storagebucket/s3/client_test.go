package s3

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/golden"

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
		code      string // of the GET; of one that is not sent, the region
		sends     int
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
		"307 with its region, so that a GET would find nothing new": {307, 0, "eu-west-1", 1, v1beta1.ReasonRegionMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				if tc.sends == 1 {
					w.Header().Set("X-Amz-Bucket-Region", tc.code)
				}
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
			if len(sent) != tc.sends || sent[0] != head || (tc.sends == 2 && !strings.HasPrefix(sent[1], list)) {
				t.Errorf("requests %q, want %d", sent, tc.sends)
			}
		})
	}
}

// Only a HEAD response with status 200 means that the bucket can be used.
func TestProbe_status_codes(t *testing.T) {
	status := 0
	c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	for status = 200; status < 600; status++ {
		if got := c.Probe(t.Context()); got.OK() != (status == http.StatusOK) {
			t.Errorf("%d: %+v", status, got)
		}
		err := c.Create(t.Context(), "k", "v")
		if (err == nil) != (status == http.StatusOK || status == http.StatusNoContent) {
			t.Errorf("%d to the creation: %v", status, err)
		}
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

// variablePart matches what differs from run to run in a header: times and signatures.
var variablePart = regexp.MustCompile(`\d{8}T\d{6}Z|Credential=key/\d{8}|Signature=[0-9a-f]{64}`)

// TestRequestsGolden compares each request with a golden file, without times and signatures.
func TestRequestsGolden(t *testing.T) {
	var got strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&got, "%s %s%s\n", r.Method, r.Host, r.URL.RequestURI())
		for _, key := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintf(&got, "  %s: %s\n", key, variablePart.ReplaceAllString(strings.Join(r.Header[key], " | "), "..."))
		}
		fmt.Fprintf(&got, "  body: %s\n", body)
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodGet && r.URL.Query().Has("tagging"):
			_, _ = io.WriteString(w, "<Tagging><TagSet><Tag><Key>owner</Key><Value>uid</Value></Tag></TagSet></Tagging>")
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, "<ListBucketResult/>")
		}
	}))
	t.Cleanup(server.Close)
	// The name of the endpoint leads to the server.
	rules := Rules{Guard: func(transport *http.Transport) http.RoundTripper {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
		return transport
	}}
	for _, target := range []Target{
		{Region: "us-east-1"}, {Region: "eu-west-1"}, {Region: "eu-west-1", VirtualHost: true},
	} {
		target.Endpoint, target.Bucket = "http://s3.example.com:9000", "team-data"
		c, err := New(target, Credentials{AccessKeyID: "key", SecretAccessKey: sentinel, SessionToken: "token"}, rules)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "== %s, virtual host: %t\n", target.Region, target.VirtualHost)
		verdict := c.Probe(t.Context())
		value, tagged, err := c.Tag(t.Context(), "owner")
		fmt.Fprintf(&got, "probe %s, tag %q %t %v, ", verdict.Reason, value, tagged, err)
		fmt.Fprintf(&got, "set %v, create %v, remove %v\n", c.SetTag(t.Context(), "owner", "uid"),
			c.Create(t.Context(), "owner", "uid"), c.Remove(t.Context()))
		c.Close()
	}
	golden.Assert(t, got.String(), "requests.txt")
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

package s3

import (
	"context"
	"errors"
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
	"time"

	"github.com/google/go-cmp/cmp"
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
	c, err := New(Target{Endpoint: server.URL, Region: "us-east-1", Bucket: "team-data", Timeout: time.Minute},
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

// A HEAD of 200 proves a bucket only with a header of S3. For it and for an ambiguous response the list
// decides. A web page, a balancer or a proxy is no bucket, whatever it answers.
func TestProbe(t *testing.T) {
	const (
		head, list = "HEAD /team-data", "GET /team-data?list-type=2&max-keys=1"
		listing    = `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>`
		page       = "<!doctype html><html><head><title>Console</title></head><body></body></html>"
	)
	xmlError := func(code string) string { return "<Error><Code>" + code + "</Code><Message>MARKER</Message></Error>" }
	for name, tc := range map[string]struct {
		head, get    int // get is 0 if no GET is sent
		region, body string
		want         Verdict
	}{
		"200 with a region":                     {200, 0, "us-east-1", "", succeeded},
		"200 of a web page":                     {200, 200, "", page, notS3},
		"200 of XML":                            {200, 200, "", "<Tagging/>", notS3},
		"200, and nothing":                      {200, 200, "", "", notS3},
		"200, and 204":                          {200, 204, "", "", notS3},
		"200, and 404":                          {200, 404, "", page, notS3},
		"200, and a list":                       {200, 200, "", listing, succeeded},
		"200, and no right to list, without S3": {200, 403, "", page, deniedBefore},
		"200, and no right to list":             {200, 403, "", xmlError("AccessDenied"), succeeded},
		"200, and wrong keys":                   {200, 403, "", xmlError("InvalidAccessKeyId"), badKeys},
		"204":                                   {204, 0, "", "", notS3},

		"404":                        {404, 404, "", xmlError("NoSuchBucket"), missing},
		"404 of a proxy":             {404, 404, "", page, notS3},
		"404 to HEAD alone":          {404, 200, "", listing, succeeded},
		"405, and a list":            {405, 200, "", listing, succeeded},
		"403":                        {403, 403, "", xmlError("AccessDenied"), denied},
		"403, unknown code":          {403, 403, "", xmlError("UserSuspended"), denied},
		"403 of a proxy":             {403, 403, "", page, deniedBefore},
		"403, wrong signature":       {403, 403, "", xmlError("SignatureDoesNotMatch"), badSignature},
		"403, clocks":                {403, 403, "", xmlError("RequestTimeTooSkewed"), skewed},
		"400, expired token":         {400, 400, "", xmlError("ExpiredToken"), expiredToken},
		"400, region":                {400, 400, "eu-west-1", xmlError("AuthorizationHeaderMalformed"), otherRegion},
		"400, of a kind of its own":  {400, 400, "", xmlError("XCustom"), refused},
		"400 of a proxy":             {400, 400, "", page, notS3},
		"400, name":                  {400, 400, "", xmlError("InvalidBucketName"), badName},
		"403, then a failing server": {403, 500, "", xmlError("InternalError"), failing},
		"403 with the code of a 404": {403, 403, "", xmlError("NoSuchBucket"), denied},
		"500 with the code of a 404": {404, 500, "", xmlError("NoSuchBucket"), failing},
		"401 of a proxy":             {401, 0, "", "", deniedBefore},

		"500":                  {500, 0, "", "", failing},
		"502":                  {502, 0, "", "", unavailable},
		"503 of a balancer":    {503, 503, "", page, unavailable},
		"503, not started":     {503, 503, "", xmlError("XMinioServerNotInitialized"), unavailable},
		"503, too fast":        {503, 503, "", xmlError("SlowDown"), throttled},
		"503, too fast, MinIO": {503, 503, "", xmlError("SlowDownRead"), throttled},
		"504":                  {504, 0, "", "", unavailable},
		"429":                  {429, 0, "", "", throttled},

		"301":                           {301, 301, "", xmlError("PermanentRedirect"), otherRegionOrEndpoint},
		"301 of a proxy":                {301, 301, "", page, redirected},
		"301 to the region of the spec": {301, 0, "us-east-1", "", redirected},
		"302":                           {302, 0, "", "", redirected},
		"307 to another region":         {307, 0, "eu-west-1", "", otherRegion},
		"307 to the region of the spec": {307, 0, "us-east-1", "", redirected},
	} {
		t.Run(name, func(t *testing.T) {
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				if tc.region != "" {
					w.Header().Set("X-Amz-Bucket-Region", tc.region)
				}
				if r.Method == http.MethodHead {
					w.WriteHeader(tc.head)
					return
				}
				w.WriteHeader(tc.get)
				_, _ = io.WriteString(w, tc.body) // 204 allows no body
			})
			if got := c.Probe(t.Context()); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			want := []string{head, list}
			if tc.get == 0 {
				want = want[:1]
			}
			if diff := cmp.Diff(want, requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// Only a HEAD response with status 200 means that the bucket can be used.
func TestProbe_status_codes(t *testing.T) {
	status := 0
	c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
		w.WriteHeader(status)
	})
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

// The Host header, which is signed, is as proxies and SDKs write it.
func TestHostHeader(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://s3.example.com":        "s3.example.com",
		"http://s3.example.com:80":     "s3.example.com",
		"https://s3.example.com:443/":  "s3.example.com",
		"http://s3.example.com:443":    "s3.example.com:443",
		"https://s3.example.com:80":    "s3.example.com:80",
		"https://S3.Example.COM.:9000": "s3.example.com:9000",
		"https://s3.example.com.":      "s3.example.com",
		"http://[FD00::1]:80":          "[fd00::1]",
		"http://[fd00::1]:9000":        "[fd00::1]:9000",
	} {
		for prefix, virtualHost := range map[string]bool{"": false, "team-data.": true} {
			if virtualHost && strings.Contains(endpoint, "[") {
				continue // the CRD refuses it
			}
			c, err := New(Target{Endpoint: endpoint, Bucket: "team-data", VirtualHost: virtualHost}, Credentials{}, Rules{})
			if err != nil {
				t.Fatal(err)
			}
			if c.host != prefix+want {
				t.Errorf("%s, virtual host %t: %q, want %q", endpoint, virtualHost, c.host, prefix+want)
			}
		}
	}
}

// The header that is signed is the one that is sent, also through the default port.
func TestHostHeader_is_sent(t *testing.T) {
	rules := Rules{Guard: func(*http.Transport) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Host != "s3.example.com" || r.URL.Host != "s3.example.com.:80" {
				t.Errorf("Host %q at %q", r.Host, r.URL.Host)
			}
			return nil, errors.New("not sent")
		})
	}}
	c, err := New(Target{Endpoint: "http://s3.example.com.:80", Bucket: "team-data", Timeout: time.Minute},
		Credentials{}, rules)
	if err != nil {
		t.Fatal(err)
	}
	c.Probe(t.Context())
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
		"creating in another region": {"IllegalLocationConstraintException", 400,
			func(ctx context.Context, c *Client) error { return c.Create(ctx, "k", "v") }, v1beta1.ReasonRegionMismatch},
		"creating one too many": {"TooManyBuckets", 400,
			func(ctx context.Context, c *Client) error { return c.Create(ctx, "k", "v") }, v1beta1.ReasonQuotaExceeded},
		"creating while it is removed": {"OperationAborted", 409,
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
		"not to be listed, by a proxy": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
			v1beta1.ReasonAccessDenied, false},
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

// A bucket that lists nothing can still have versions, which the operator never removes.
func TestRemove_versions_remain(t *testing.T) {
	c, _ := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			respondError(w, http.StatusConflict, "BucketNotEmpty")
			return
		}
		fmt.Fprint(w, "<ListBucketResult/>")
	})
	if v := VerdictOf(c.Remove(t.Context())); v == nil || *v != hasVersions {
		t.Errorf("got %+v, want that versions remain", v)
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
		target.Endpoint, target.Bucket, target.Timeout = "http://s3.example.com:9000", "team-data", time.Minute
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

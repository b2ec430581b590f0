// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"
)

var allowLoopback = Rules{Allow: prefixes("127.0.0.0/8", "::1/128")}

const sentinel = "SENTINEL-secret-access-key"

func parse(text string) *url.URL {
	parsed, _ := url.Parse(text) // tests have valid ones
	return parsed
}

func clientOf(endpoint string, rules Rules) *Client {
	return New(Target{Endpoint: parse(endpoint), Region: "us-east-1", Bucket: "team-data", Timeout: time.Minute},
		Credentials{AccessKeyID: "key", SecretAccessKey: sentinel}, rules)
}

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
	return clientOf(server.URL, rules), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // some statuses allow no body
	}
}

// A HEAD of 200 proves a bucket only with a header of S3. For it and for an ambiguous response the list
// decides. A web page, a balancer or a proxy is no bucket, whatever it answers.
func TestProbe(t *testing.T) {
	const (
		head, list = "HEAD /team-data", "GET /team-data?list-type=2&max-keys=1"
		listing    = `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>`
		page       = "<!doctype html><html><head><title>Console</title></head><body></body></html>"
	)
	xmlError := func(code string) string { return "<Error><Code>" + code + "</Code></Error>" }
	for name, tc := range map[string]struct {
		head, get    int // get is 0 if no GET is sent
		region, body string
		want         Verdict
	}{
		"200 with a region":                     {200, 0, "us-east-1", "", Succeeded},
		"200 of a web page":                     {200, 200, "", page, notS3},
		"200, and 204":                          {200, 204, "", "", notS3},
		"200, and 404":                          {200, 404, "", page, notS3},
		"200, and a list":                       {200, 200, "", listing, Succeeded},
		"200, and no right to list, without S3": {200, 403, "", page, deniedBefore},
		"200, and no right to list":             {200, 403, "", xmlError("AccessDenied"), Succeeded},
		"200, and wrong keys":                   {200, 403, "", xmlError("InvalidAccessKeyId"), badKeys},
		"204":                                   {204, 0, "", "", notS3},

		"404":               {404, 404, "", xmlError("NoSuchBucket"), missing},
		"404 of a proxy":    {404, 404, "", page, notS3},
		"404 to HEAD alone": {404, 200, "", listing, Succeeded},
		"403":               {403, 403, "", xmlError("AccessDenied"), Denied},
		"403, unknown code": {403, 403, "", xmlError("$(id)"), Verdict{refused.Reason, "the service refuses the request " +
			"with HTTP status 403 and an unknown error code; see the documentation of the service"}},
		"403, a suspended user": {403, 403, "", xmlError("UserSuspended"), Verdict{account.Reason, "the service has " +
			"suspended, disabled or not activated the account or the bucket, and responds with HTTP status 403 and the error " +
			"code UserSuspended; check the console of the service, or contact its support"}},
		"403, an unknown key of STS": {403, 403, "", xmlError("InvalidClientTokenId"), badKeys},
		"403, path style, OSS":       {403, 403, "", xmlError("SecondLevelDomainForbidden"), needsHost},
		"405, path style, OBS":       {405, 405, "", xmlError("VirtualHostDomainRequired"), needsHost},
		"403, another endpoint": {403, 403, "", "<Error><Code>AccessDenied</Code><Endpoint>o</Endpoint></Error>",
			otherEndpoint},
		"400, a header": {400, 400, "", xmlError("AuthorizationHeaderMalformed"), badHeader},
		"400, a header, with the same region": {400, 400, "us-east-1", xmlError("AuthorizationHeaderMalformed"),
			badHeader},
		"400, a header, with another region": {400, 400, "", "<Error><Code>AuthorizationHeaderMalformed</Code>" +
			"<Region>eu-west-1</Region></Error>", otherRegion},
		"400, a header, and another region": {400, 400, "eu-west-1", xmlError("AuthorizationHeaderMalformed"),
			otherRegion},
		"403 of a proxy":             {403, 403, "", page, deniedBefore},
		"403, wrong signature":       {403, 403, "", xmlError("SignatureDoesNotMatch"), badSignature},
		"400, expired token":         {400, 400, "", xmlError("ExpiredToken"), expiredToken},
		"400, of a kind of its own":  {400, 400, "", xmlError("XCustom"), refused.naming(answer{status: 400})},
		"403, then a failing server": {403, 500, "", xmlError("InternalError"), failing},
		"403 with the code of a 404": {403, 403, "", xmlError("NoSuchBucket"),
			refused.naming(answer{status: 403, code: "NoSuchBucket"})},
		"500 with the code of a 404": {404, 500, "", xmlError("NoSuchBucket"), failing},
		"401 of a proxy":             {401, 0, "", "", deniedBefore},

		"500":               {500, 0, "", "", failing},
		"502":               {502, 0, "", "", unavailable},
		"503 of a balancer": {503, 503, "", page, unavailable},
		"503, not started":  {503, 503, "", xmlError("XMinioServerNotInitialized"), unavailable},
		"503, too fast":     {503, 503, "", xmlError("SlowDown"), throttled},
		"503, reads":        {503, 503, "", xmlError("SlowDownRead"), throttled},
		"503, writes":       {503, 503, "", xmlError("SlowDownWrite"), throttled},
		"501 to HEAD alone": {501, 200, "", listing, Succeeded},
		"504":               {504, 0, "", "", unavailable},
		"429":               {429, 0, "", "", throttled},

		"301":                   {301, 301, "", xmlError("PermanentRedirect"), otherRegion},
		"301 of a proxy":        {301, 301, "", page, redirected},
		"307":                   {307, 307, "", xmlError("TemporaryRedirect"), otherRegion},
		"307 to another region": {307, 0, "eu-west-1", "", otherRegion},
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

// The Host header, which is signed, is as proxies and SDKs write it. It is the one that is sent.
func TestHostHeader(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://s3.example.com:80":     "s3.example.com",
		"https://s3.example.com:443/":  "s3.example.com",
		"http://s3.example.com:443":    "s3.example.com:443",
		"https://s3.example.com:80":    "s3.example.com:80",
		"https://S3.Example.COM.:9000": "s3.example.com:9000",
		"http://[FD00::1]:80":          "[fd00::1]",
		"http://[fd00::1]:9000":        "[fd00::1]:9000",
	} {
		for prefix, virtualHost := range map[string]bool{"": false, "team-data.": true} {
			if virtualHost && strings.Contains(endpoint, "[") {
				continue // the CRD refuses it
			}
			sent := ""
			rules := Rules{Guard: func(*http.Transport) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					sent = r.Host
					return nil, io.EOF
				})
			}}
			c := New(Target{Endpoint: parse(endpoint), Bucket: "team-data", VirtualHost: virtualHost, Timeout: time.Minute},
				Credentials{}, rules)
			if c.Probe(t.Context()); sent != prefix+want {
				t.Errorf("%s, virtual host %t: %q, want %q", endpoint, virtualHost, sent, prefix+want)
			}
		}
	}
}

// AWS refuses its default region as a location, and requires each other one. A server that refuses the tags gets the
// region without them.
func TestCreateNamesTheRegion(t *testing.T) {
	for region, want := range map[string]string{"us-east-1": "", "eu-west-1": "<LocationConstraint>eu-west-1</LocationConstraint>"} {
		for _, refusal := range []string{"", "MalformedXML", "NotImplemented", "InvalidArgument"} {
			sent := ""
			c := New(Target{Endpoint: parse("http://s3.example.com"), Region: region, Bucket: "team-data", Timeout: time.Minute},
				Credentials{}, Rules{Guard: func(*http.Transport) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						body, err := io.ReadAll(r.Body)
						answer := httptest.NewRecorder()
						if sent = string(body); refusal != "" && strings.Contains(sent, "<Key>k</Key>") {
							respond(400, "<Error><Code>"+refusal+"</Code></Error>")(answer, r)
						}
						return answer.Result(), err
					})
				}})
			if err := c.Create(t.Context(), "k", "v"); err != nil || strings.Contains(sent, "<Key>k</Key>") != (refusal == "") ||
				strings.Contains(sent, "LocationConstraint") != (want != "") || !strings.Contains(sent, want) {
				t.Errorf("in %s, after %q: %v, sent %s", region, refusal, err, sent)
			}
		}
	}
}

// Each operation returns the verdict on S3's error.
func TestErrors(t *testing.T) {
	create := func(ctx context.Context, c *Client) error { return c.Create(ctx, "k", "v") }
	tags := func(ctx context.Context, c *Client) error {
		_, err := c.Tags(ctx)
		return err
	}
	tag := func(ctx context.Context, c *Client) error { return c.SetTag(ctx, "k", "v") }
	for name, tc := range map[string]struct {
		do     func(context.Context, *Client) error
		status int
		code   string
		want   Verdict // without a reason a success
	}{
		"creating what we have":      {create, 409, "BucketAlreadyOwnedByYou", Owned},
		"creating what another has":  {create, 409, "BucketAlreadyExists", Taken},
		"creating in another region": {create, 400, "IllegalLocationConstraintException", noSuchRegion},
		"creating in no region":      {create, 400, "InvalidLocationConstraint", noSuchRegion},
		"creating what is removed":   {create, 409, "OperationAborted", busy},
		"creating one too many":      {create, 400, "TooManyBuckets", tooMany},
		"a name of its own":          {create, 400, "InvalidBucketName", badName},
		"no tags":                    {tags, 404, "NoSuchTagSet", Verdict{}},
		"tags of no bucket":          {tags, 404, "NoSuchBucket", missing},
		"no support, 501":            {tags, 501, "", noTags},
		"no support, 405":            {tags, 405, "MethodNotAllowed", noTags},
		"no support, 400":            {tags, 400, "NotImplemented", noTags},
		"tags of a failing service":  {tags, 500, "InternalError", failing},
		"tags on a page":             {tags, 200, "", notS3},
		"no right to read tags":      {tags, 403, "AccessDenied", deniedTags},
		"no right to tag":            {tag, 403, "AccessDenied", deniedTags},
		"no right to create":         {create, 403, "AccessDenied", deniedCreation},
		"tags with bad keys":         {tags, 403, "InvalidAccessKeyId", badKeys},
		"tags with a bad token":      {tags, 400, "InvalidToken", expiredToken},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, allowLoopback, respond(tc.status, "<Error><Code>"+tc.code+"</Code></Error>"))
			var want error
			if tc.want.Reason != "" {
				want = Error{tc.want}
			}
			if err := tc.do(t.Context(), c); err != want { //nolint:errorlint // the value counts
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

// Some servers remove a bucket with its objects; a 404 of a load balancer is not S3's. A bucket that
// lists nothing can still have versions, which the operator never removes.
func TestRemove_lists_first(t *testing.T) {
	const empty, full = "<ListBucketResult/>", "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"
	const version, marker = "<ListVersionsResult><Version/></ListVersionsResult>",
		"<ListVersionsResult><DeleteMarker/></ListVersionsResult>"
	for name, tc := range map[string]struct {
		status   int
		list     string
		versions string // an XML body, or a status
		removal  int
		want     Verdict // without a reason a success
		removes  bool
	}{
		"with an object":             {200, full, empty, 204, hasObjects, false},
		"empty":                      {200, empty, "<ListVersionsResult/>", 204, Verdict{}, true},
		"with versions":              {200, empty, "403", 409, hasMore, true},
		"with versions in the list":  {200, empty, version, 204, hasMore, false},
		"with markers":               {200, empty, marker, 204, hasMore, false},
		"a server without versions":  {200, empty, "501", 204, Verdict{}, true},
		"no right to list versions":  {200, empty, "403", 204, Verdict{}, true},
		"no list of versions at all": {200, empty, "405", 204, Verdict{}, true},
		"versions, a failing server": {200, empty, "500", 204, failing, false},
		"versions, a page":           {200, empty, "<html>welcome</html>", 204, notS3, false},
		"not to be listed":           {403, "<Error><Code>AccessDenied</Code></Error>", empty, 204, Denied, false},
		"not a list":                 {200, "<html>welcome</html>", empty, 204, notS3, false},
		"gone":                       {404, "<Error><Code>NoSuchBucket</Code></Error>", empty, 204, Verdict{}, false},
		"a balancer's words":         {404, "404 page not found", empty, 204, notS3, false},
		"no right to remove":         {200, empty, empty, 403, deniedRemoval, true},
		"gone since it was listed":   {200, empty, empty, 404, Verdict{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			codes := map[int]string{409: "BucketNotEmpty", 404: "NoSuchBucket", 403: "AccessDenied"}
			c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					respond(tc.removal, "<Error><Code>"+codes[tc.removal]+"</Code></Error>")(w, r)
					return
				}
				status, err := strconv.Atoi(tc.versions)
				switch hasVersions := r.URL.Query().Has("versions"); {
				case hasVersions && err == nil:
					w.WriteHeader(status)
				case hasVersions:
					respond(200, tc.versions)(w, r)
				default:
					respond(tc.status, tc.list)(w, r)
				}
			})
			err, _ := c.Remove(t.Context()).(Error) //nolint:errorlint // the error is not wrapped
			if removes := slices.Contains(requests(), "DELETE /team-data"); err.Verdict != tc.want || removes != tc.removes {
				t.Errorf("got %v after %q, want %v, and a removal: %t", err, requests(), tc.want, tc.removes)
			}
		})
	}
}

// Tags of others, in any script and with any punctuation, do not hide the tag of the operator. The XML
// of S3 and of MinIO is read.
func TestTags_of_others(t *testing.T) {
	var longest strings.Builder
	for i := range 49 {
		fmt.Fprintf(&longest, "<Tag><Key>%02d%s</Key><Value>%s</Value></Tag>", i, strings.Repeat("é", 126),
			strings.Repeat("&#34;", 256))
	}
	for name, others := range map[string]string{
		"none":             "",
		"beyond ASCII":     "<Tag><Key>B&#252;ro</Key><Value>K&#xF6;ln 🪣</Value></Tag>",
		"refused by S3":    "<Tag><Key>a*?#%</Key><Value>(b)[c]{d}|~^`;!$,&lt;&amp;</Value></Tag>",
		"longest and most": longest.String(),
	} {
		c, _ := serve(t, allowLoopback, respond(200, `<?xml version="1.0" encoding="UTF-8"?>
			<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>`+others+`
			<Tag><Key>owner</Key><Value>uid</Value></Tag></TagSet></Tagging>`))
		if tags, err := c.Tags(t.Context()); tags["owner"] != "uid" || err != nil || (len(tags) > 1) == (others == "") {
			t.Errorf("%s: %d tags, the owner is %q, %v", name, len(tags), tags["owner"], err)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	creds := Credentials{AccessKeyID: "key", SecretAccessKey: sentinel, SessionToken: sentinel}
	if text := fmt.Sprintf("%v %+v %#v %s", creds, creds, creds, creds); strings.Contains(text, sentinel) {
		t.Errorf("printed %s", text)
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
		target.Endpoint, target.Bucket, target.Timeout = parse("http://s3.example.com:9000"), "team-data", time.Minute
		c := New(target, Credentials{AccessKeyID: "key", SecretAccessKey: sentinel, SessionToken: "token"}, rules)
		fmt.Fprintf(&got, "== %s, virtual host: %t\n", target.Region, target.VirtualHost)
		verdict := c.Probe(t.Context())
		tags, err := c.Tags(t.Context())
		fmt.Fprintf(&got, "probe %s, tags %q %v, ", verdict.Reason, tags, err)
		fmt.Fprintf(&got, "set %v, create %v, remove %v\n", c.SetTag(t.Context(), "owner", "uid"),
			c.Create(t.Context(), "owner", "uid"), c.Remove(t.Context()))
	}
	golden.Assert(t, got.String(), "requests.txt")
}

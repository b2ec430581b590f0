package s3

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"gotest.tools/v3/golden"
)

// TestVerdictsGolden compares the verdicts on responses with a golden file: each code with each
// status, with and without a region.
func TestVerdictsGolden(t *testing.T) {
	codes := slices.Sorted(maps.Keys(codeReasons))
	codes = append(codes, "", "Whatever", "RequestTimeTooSkewed", CodeExists, CodeOwned, codeNoTags)
	var got strings.Builder
	seen := map[string]bool{}
	for _, region := range []string{"", "eu-west-1"} {
		for _, code := range codes {
			fmt.Fprintf(&got, "code %q, region %q:", code, region)
			for _, status := range []int{201, 204, 301, 302, 307, 400, 401, 403, 404, 409, 429, 500, 503} {
				v := verdictOn(minio.ErrorResponse{StatusCode: status, Code: code, Region: region}, false)
				fmt.Fprintf(&got, " %d %s", status, v.Reason)
				seen[v.Reason+": "+v.Message] = true
			}
			got.WriteString("\n")
		}
	}
	for reason, message := range messages {
		seen[reason+": "+message] = true
	}
	for _, said := range slices.Sorted(maps.Keys(seen)) {
		got.WriteString(said + "\n")
	}
	golden.Assert(t, got.String(), "verdicts.txt")
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
		fmt.Fprintf(&got, "%s %s\n", r.Method, r.URL.RequestURI())
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
	for _, region := range []string{"us-east-1", "eu-west-1"} {
		c, err := New(Target{Endpoint: server.URL, Region: region, Bucket: "team-data"},
			Credentials{AccessKeyID: "key", SecretAccessKey: sentinel, SessionToken: "token"}, allowLoopback)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "== %s\n", region)
		verdict := c.Probe(t.Context())
		value, tagged, err := c.Tag(t.Context(), "owner")
		fmt.Fprintf(&got, "probe %s, tag %q %t %v, ", verdict.Reason, value, tagged, err)
		fmt.Fprintf(&got, "set %v, create %v, remove %v\n", c.SetTag(t.Context(), "owner", "uid"),
			c.Create(t.Context(), "owner", "uid"), c.Remove(t.Context()))
		c.Close()
	}
	golden.Assert(t, got.String(), "requests.txt")
}

package s3

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"

	"leasehold.dev/api/v1beta1"
)

// childEndpoint is set in the process that TestNoProxyIsUsed starts.
const childEndpoint = "LEASEHOLD_TEST_ENDPOINT"

// The client dials the endpoint itself. Through a proxy of the environment the rules would judge
// the proxy's address only. net/http uses no proxy for a loopback endpoint and reads the
// environment once for each process, so another process probes an endpoint elsewhere.
func TestNoProxyIsUsed(t *testing.T) {
	if endpoint, child := os.LookupEnv(childEndpoint); child {
		rules := Rules{Allow: prefixes("127.0.0.0/8"), Deny: prefixes("192.0.2.0/24")}
		c, err := New(Target{Endpoint: endpoint, Region: "us-east-1", Bucket: "team-data"},
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

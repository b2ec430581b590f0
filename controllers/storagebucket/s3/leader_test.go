package s3

import (
	"errors"
	"net/http"
	"testing"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The guard gets each request. A rejected request is not sent.
func TestGuardSeesEachRequest(t *testing.T) {
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
	c, requests := serve(t, rules, func(http.ResponseWriter, *http.Request) {})
	if verdict := c.Probe(t.Context()); !verdict.OK() || len(requests()) != 1 {
		t.Errorf("the leader's probe: %+v, %q", verdict, requests())
	}
	leads = false
	if verdict := c.Probe(t.Context()); verdict.OK() || len(requests()) != 1 {
		t.Errorf("a former leader's probe: %+v, %q", verdict, requests())
	}
	if _, err := c.send(t.Context(), http.MethodPut, tagging, []byte("<Tagging/>")); err == nil || len(requests()) != 1 {
		t.Errorf("a former leader's write: %v, %q", err, requests())
	}
}

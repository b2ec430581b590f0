// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestGuardWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		exempt       bool
	}{
		"Get":                  {http.MethodGet, "/api/v1/namespaces/a/configmaps/b", true},
		"Head":                 {http.MethodHead, "/api/v1/namespaces/a/configmaps/b", true},
		"Post":                 {http.MethodPost, "/api/v1/namespaces/a/configmaps", false},
		"Put":                  {http.MethodPut, "/api/v1/namespaces/a/configmaps/b", false},
		"Patch":                {http.MethodPatch, "/apis/leasehold.dev/v1beta1/tenants/a/status", false},
		"Delete":               {http.MethodDelete, "/api/v1/namespaces/a", false},
		"Events":               {http.MethodPost, "/apis/events.k8s.io/v1/namespaces/a/events", true},
		"CoreEvents":           {http.MethodPost, "/api/v1/namespaces/a/events", true},
		"CoreEventsEverywhere": {http.MethodPost, "/api/v1/events", true},
		"NamespaceEvents":      {http.MethodDelete, "/api/v1/namespaces/events", false},
		"ConfigMapEvents":      {http.MethodPut, "/api/v1/namespaces/a/configmaps/events", false},
		"InNamespaceEvents":    {http.MethodPost, "/api/v1/namespaces/events/configmaps", false},
		"Leases":               {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", true},
		"TokenReviews":         {http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", true},
		"AccessReviews":        {http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", true},
		"Roles":                {http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", false},
		"WebhookBundles":       {http.MethodPut, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a", false},
		"GroupOfTheName":       {http.MethodPost, "/apis/not-events.k8s.io/v1/events", false},
		"BelowAPrefix":         {http.MethodPost, "/k8s/clusters/c/apis/events.k8s.io/v1/events", true},
		"Root":                 {http.MethodPost, "/", false},
		"Group":                {http.MethodPost, "/apis/events.k8s.io", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term, machine, _ := newTestTerm()
				sent := 0
				client := term.GuardWrites(roundTripper(func(*http.Request) (*http.Response, error) {
					sent++
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				}))
				try := func() bool {
					before := sent
					request := httptest.NewRequest(tc.method, "https://api"+tc.path, http.NoBody)
					response, err := client.RoundTrip(request)
					if err == nil {
						_ = response.Body.Close()
					} else if !errors.Is(err, ErrNotLeading) {
						t.Errorf("RoundTrip() = %v", err)
					}
					return sent > before
				}
				if try() != tc.exempt {
					t.Errorf("sent without a term: %t, want %t", !tc.exempt, tc.exempt)
				}
				term.extend(machine.elapsed(), leaseTime)
				if !try() {
					t.Error("rejected within the term")
				}
				machine.slept = leaseTime
				if try() != tc.exempt {
					t.Errorf("sent after the term: %t, want %t", !tc.exempt, tc.exempt)
				}
			})
		})
	}
}

// A process without leader election has no Term.
func TestNilTermGuardsNothing(t *testing.T) {
	var none *Term
	transport := &http.Transport{}
	if none.GuardAll(transport) != http.RoundTripper(transport) || transport.DialContext != nil {
		t.Error("GuardAll() changed the transport")
	}
	if none.GuardWrites(transport) != http.RoundTripper(transport) {
		t.Error("GuardWrites() changed the transport")
	}
}

func TestGuardAll(t *testing.T) {
	var received int
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received++ }))
	t.Cleanup(server.Close)
	term, machine, _ := newTestTerm()
	dialled := func() {}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled()
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	client := &http.Client{Transport: term.GuardAll(transport)}
	get := func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	for _, step := range []struct {
		what   string
		before func()
		sent   bool
	}{
		{"before it leads", func() {}, false},
		{"while it leads", func() { term.extend(machine.elapsed(), leaseTime) }, true},
		{"over the same connection, after the term", func() { machine.slept += leaseTime }, false},
		{"as leader again", func() { term.extend(machine.elapsed(), leaseTime) }, true},
		{"paused while it dials", func() {
			transport.CloseIdleConnections()
			dialled = func() { machine.slept += leaseTime }
		}, false},
	} {
		before := received
		step.before()
		err := get()
		if (err == nil) != step.sent || (received > before) != step.sent {
			t.Errorf("%s: error %v, received %d, want it sent: %t", step.what, err, received-before, step.sent)
		}
		if err != nil && !errors.Is(err, ErrNotLeading) {
			t.Errorf("%s: error %v, want ErrNotLeading", step.what, err)
		}
	}
	term.finish()
}

// GuardAll adds the default dialer to a transport without one.
func TestGuardAllDials(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	term, machine, _ := newTestTerm()
	term.extend(machine.elapsed(), leaseTime)
	guarded := term.GuardAll(&http.Transport{})
	for _, want := range []error{nil, ErrNotLeading} {
		response, err := guarded.RoundTrip(httptest.NewRequest(http.MethodGet, server.URL, http.NoBody))
		if err == nil {
			_ = response.Body.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("RoundTrip() = %v, want %v", err, want)
		}
		term.finish()
	}
}

// A RoundTripper closes the body of each request.
func TestGuardClosesBody(t *testing.T) {
	term, _, _ := newTestTerm()
	body := &closing{Reader: strings.NewReader("x")}
	response, err := term.GuardWrites(http.DefaultTransport).
		RoundTrip(httptest.NewRequest(http.MethodPost, "https://api/api/v1/namespaces", body))
	if err == nil {
		_ = response.Body.Close()
	}
	const want = "rejecting POST /api/v1/namespaces: this replica does not hold the election Lease"
	if !errors.Is(err, ErrNotLeading) || err.Error() != want || !body.closed {
		t.Errorf("RoundTrip() = %v, closed: %t, want %s", err, body.closed, want)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

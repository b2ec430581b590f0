package run

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// externalStore is a system outside the cluster that has things by their paths.
type externalStore struct {
	proxy  *fault.Proxy
	things []history.ExternalThing

	mu     sync.Mutex
	caller string   // who opens the next connection
	asked  []string // what came to it
	done   []string // what others have changed
}

func (d *externalStore) Proxy() *fault.Proxy { return d.proxy }

func (d *externalStore) Values() (open, secret map[string]string) {
	return map[string]string{"depot.url": d.proxy.URL()}, map[string]string{"depot.key": "k"}
}

func (d *externalStore) Do(_ context.Context, change, thing string) error {
	if change != "put" {
		return errors.New("no such change")
	}
	d.done = append(d.done, change+" "+thing)
	return nil
}

func (d *externalStore) Look(context.Context) ([]history.ExternalThing, error) { return d.things, nil }

func (d *externalStore) Read(r fault.Request) (history.Call, bool) {
	call := history.Call{Action: history.Get, Thing: strings.Trim(r.Path, "/"), Outcome: history.Done}
	if r.Mutating() {
		call.Action, call.Owner = history.Create, "u1"
	}
	return call, call.Thing != ""
}

func (d *externalStore) Refusal(code int) (fault.Answer, error) {
	if code != http.StatusServiceUnavailable {
		return fault.Answer{}, errors.New("it never says that")
	}
	return fault.S3Error(code, "SlowDown"), nil
}

func (d *externalStore) Stop() error { return d.proxy.Close() }

// received are the requests that were not stopped on their way.
func (d *externalStore) received() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.asked...)
}

// newExternalStore gives a stage something outside, which answers with a code.
func newExternalStore(t *testing.T, s *testbed, code int) *externalStore {
	t.Helper()
	g := NewWithT(t)
	d := &externalStore{caller: "one"}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked = append(d.asked, r.Method+" "+r.URL.String())
		w.WriteHeader(code)
	}))
	t.Cleanup(upstream.Close)
	var err error
	d.proxy, err = fault.NewProxy(fault.Options{Upstream: upstream.URL, Peer: func(string, string) string {
		d.mu.Lock()
		defer d.mu.Unlock()
		return s.replicaOfConnection(d.caller, "")
	}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(d.Stop()).To(Succeed()) })
	s.external = d
	return d
}

// call sends a request to the depot as one of the workers does; 0 is no answer.
func (d *externalStore) call(t *testing.T, caller, method, path string) int {
	t.Helper()
	d.mu.Lock()
	d.caller = caller
	d.mu.Unlock()
	request, err := http.NewRequestWithContext(t.Context(), method, d.proxy.URL()+path, http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	response, err := (&http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return response.StatusCode
}

func callPlan(t *testing.T, fault, target string) Plan {
	t.Helper()
	p, err := ParsePlan("s:" + fault + ":" + target)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

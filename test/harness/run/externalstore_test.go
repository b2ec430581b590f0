// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
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
	t      *testing.T
	proxy  *fault.Proxy
	things []history.ExternalThing

	mu     sync.Mutex
	caller string   // the opener of the next connection
	served int      // the number of its requests
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

func (d *externalStore) Read(r fault.ProxiedRequest) (history.Call, bool) {
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

// received returns how many requests were not stopped on their way.
func (d *externalStore) received() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.served
}

// addStore adds an external system that answers with a code.
func (s *testbed) addStore(code int) {
	d := &externalStore{caller: "one", t: s.t}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.served++
		w.WriteHeader(code)
	}))
	s.t.Cleanup(upstream.Close)
	var err error
	d.proxy, err = fault.NewProxy(fault.Options{Upstream: upstream.URL, Peer: func(string, string) string {
		d.mu.Lock()
		defer d.mu.Unlock()
		return s.replicaOfConnection(d.caller, "")
	}})
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { s.Expect(d.Stop()).To(Succeed()) })
	s.store, s.external = d, d
}

// call sends a request as a replica does; 0 is no answer.
func (d *externalStore) call(caller, method, path string) int {
	d.mu.Lock()
	d.caller = caller
	d.mu.Unlock()
	code, _ := send(d.t.Context(), method, d.proxy.URL()+path, "")
	return code
}

// waitUntilDone waits until the proxy has finished all requests. It may record a delivery after the client.
func (d *externalStore) waitUntilDone() {
	NewWithT(d.t).Eventually(func() []fault.ProxiedRequest { return d.proxy.Journal().Requests }, testTimeout).
		ShouldNot(ContainElement(HaveField("Done", BeZero())))
}

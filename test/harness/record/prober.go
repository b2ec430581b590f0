// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/history"
)

const (
	// probeEvery is the period of readiness probes until the first success, and probeTimeout their
	// timeout, as for a kubelet.
	probeEvery   = 100 * time.Millisecond
	probeTimeout = time.Second
	// readEvery is the number of periods between two readings of the metrics.
	readEvery = 5
)

// The metrics of controller-runtime.
const (
	queuedWork    = "workqueue_depth"
	activeWorkers = "controller_runtime_active_workers"
	unfinished    = "workqueue_unfinished_work_seconds"
	finishedWork  = "controller_runtime_reconcile_total"
)

// ProbeTarget contains the addresses of a replica. An empty address is not probed.
type ProbeTarget struct {
	Name string
	// Ready is the URL that a kubelet requests for the readiness probe.
	Ready string
	// Metrics is the host:port that serves /metrics. Webhook is the host:port that serves the
	// webhooks.
	Metrics, Webhook string
	// Timeout limits each probe. Zero: one second, the default of a kubelet.
	Timeout time.Duration
}

// Prober probes each process of one replica until it is ready, reads its metrics periodically, and
// records the results that differ from the previous one. Its methods may be called concurrently.
type Prober struct {
	target ProbeTarget
	clock  clock.Clock
	client *http.Client
	dialer *tls.Dialer
	stop   context.CancelFunc
	done   sync.WaitGroup
	// process counts the processes of the replica.
	process atomic.Int64

	mu     sync.Mutex
	probes []*history.Probe
	last   map[history.ProbeRequest]*history.Probe
	unread error // why the metrics could not be read last
}

// Probe starts to probe a replica. The caller must call Stop; canceling ctx does not stop the
// Prober.
func Probe(ctx context.Context, c clock.Clock, t ProbeTarget) *Prober {
	t.Timeout = cmp.Or(t.Timeout, probeTimeout)
	p := &Prober{
		target: t, clock: c, last: map[history.ProbeRequest]*history.Probe{},
		// Whether a certificate is the right one is for its clients. The compression of metrics costs the
		// replica more than their transport.
		client: &http.Client{Timeout: t.Timeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}},
		dialer: &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}},
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done.Go(func() { p.run(ctx) })
	return p
}

// Stop ends the probes and waits until they have returned.
func (p *Prober) Stop() {
	p.stop()
	p.done.Wait()
	p.client.CloseIdleConnections()
}

// Since returns the results that were last observed at this time or later.
func (p *Prober) Since(at time.Time) []history.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []history.Probe
	for _, probe := range p.probes {
		if !probe.Last.Before(at) {
			all = append(all, *probe)
		}
	}
	return all
}

// Forget drops the results that were last observed before a time, except for the latest result of
// each kind of probe.
func (p *Prober) Forget(before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes = slices.DeleteFunc(p.probes, func(probe *history.Probe) bool {
		return probe.Last.Before(before) && p.last[probe.Request] != probe
	})
}

// Restart separates the results of a process that has exited from those of the next process, which
// is about to start. The result of a probe that is in flight is dropped, because either process may
// have answered it.
func (p *Prober) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process.Add(1)
	clear(p.last)
}

// Workload returns whether the process had work when its metrics were last read, and the time of
// that reading. known is false before the first reading of a process, after a failed reading, and
// if the process does not expose the metrics of controller-runtime.
func (p *Prober) Workload() (work history.ProbeResult, at time.Time, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probe, known := p.last[history.Work]
	if !known {
		return "", time.Time{}, false
	}
	return probe.Result, probe.Last, true
}

// Unread returns the error of the last attempt to read the metrics. It is nil if the attempt
// succeeded or if there was none.
func (p *Prober) Unread() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unread
}

func (p *Prober) run(ctx context.Context) {
	isReady, before := false, int64(0)
	for n := 0; ; n++ {
		process := p.process.Load()
		// A process that becomes ready is examined at once, and then no more: readiness often includes a
		// TLS handshake with the webhooks, which costs the replica milliseconds.
		if !isReady || process != before {
			if isReady = p.checkReady(ctx, process); isReady {
				p.handshake(ctx, process)
			}
		}
		before = process
		if n%readEvery == 0 {
			p.figures(ctx, process)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(probeEvery):
		}
	}
}

// checkReady performs one readiness probe of a kubelet.
func (p *Prober) checkReady(ctx context.Context, process int64) bool {
	if p.target.Ready == "" {
		return false
	}
	code, body, err := p.get(ctx, p.target.Ready)
	probe := history.Probe{Request: history.Ready, Result: history.Yes}
	switch {
	case err != nil:
		probe.Result = history.NoAnswer
	case code != http.StatusOK:
		probe.Result, probe.Detail = history.No, fmt.Sprintf("%d: %s", code, strings.TrimSpace(body))
	}
	p.note(ctx, process, probe)
	return probe.Result == history.Yes
}

func (p *Prober) get(ctx context.Context, address string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func (p *Prober) handshake(ctx context.Context, process int64) {
	if p.target.Webhook == "" {
		return
	}
	probe := history.Probe{Request: history.Serves, Result: history.Yes}
	limited, cancel := context.WithTimeout(ctx, p.target.Timeout)
	defer cancel()
	connection, err := p.dialer.DialContext(limited, "tcp", p.target.Webhook)
	if err != nil {
		probe.Result, probe.Detail = history.No, reasonOf(err)
	} else {
		_ = connection.Close()
	}
	p.note(ctx, process, probe)
}

// reasonOf returns the network error without port numbers.
func reasonOf(err error) string {
	var of *net.OpError
	if errors.As(err, &of) && of.Err != nil {
		return of.Err.Error()
	}
	return err.Error()
}

func (p *Prober) figures(ctx context.Context, process int64) {
	if p.target.Metrics == "" {
		return
	}
	metrics, err := ReadMetrics(ctx, p.client, "http://"+p.target.Metrics+"/metrics")
	answered := func(err error) bool { return !errors.As(err, new(*url.Error)) }
	if err != nil && answered(err) {
		// A server without TLS has given the reason already.
		if secure, problem := ReadMetrics(ctx, p.client, "https://"+p.target.Metrics+"/metrics"); answered(problem) {
			metrics, err = secure, problem
		}
	}
	p.mu.Lock()
	p.unread = err
	if err != nil {
		delete(p.last, history.Work) // the next result is recorded even if it is the same
	}
	p.mu.Unlock()
	if err != nil {
		return
	}
	work := history.Probe{Request: history.Work, Result: history.Idle, Figures: map[string]float64{}}
	for _, name := range []string{queuedWork, activeWorkers, unfinished} {
		if amount, _ := metrics.Sum(name); amount > 0 {
			work.Result = history.Busy
		}
	}
	if finished, known := metrics.Sum(finishedWork); known {
		work.Figures[history.Finished] = finished
		p.note(ctx, process, work)
	}
}

// note records an answer of a process. An equal answer only extends the last one.
func (p *Prober) note(ctx context.Context, process int64, probe history.Probe) {
	if ctx.Err() != nil {
		return // the probe was cancelled, so a missing answer means nothing
	}
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if process != p.process.Load() {
		return // its request went to the process before
	}
	if before := p.last[probe.Request]; before != nil && before.Result == probe.Result &&
		before.Detail == probe.Detail && maps.Equal(before.Figures, probe.Figures) {
		before.Last = now
		return
	}
	probe.Replica, probe.First, probe.Last = p.target.Name, now, now
	p.last[probe.Request] = &probe
	p.probes = append(p.probes, &probe)
}

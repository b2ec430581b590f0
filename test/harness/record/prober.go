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

// ProbeTarget has the addresses of a replica. An empty one is not probed.
type ProbeTarget struct {
	Name string
	// Ready is the URL of the readiness probe of a kubelet.
	Ready string
	// Metrics is the host and port where /metrics is, and Webhook where the webhooks are served.
	Metrics, Webhook string
	// Timeout bounds a probe. Zero: a second, as for a kubelet.
	Timeout time.Duration
}

// Prober probes each process of one replica until it is ready, reads its metrics periodically, and
// keeps the changes. Its methods may be called concurrently.
type Prober struct {
	target ProbeTarget
	clock  clock.Clock
	client *http.Client
	dialer *tls.Dialer
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	probes []*history.Probe
	last   map[history.ProbeRequest]*history.Probe
	// process counts the processes of the replica.
	process int
	unread  error // why the metrics could not be read last
}

// Probe starts to probe a replica. The Prober has to be stopped; the end of ctx does not
// end it.
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

// Stop ends the probes.
func (p *Prober) Stop() {
	p.stop()
	p.done.Wait()
	p.client.CloseIdleConnections()
}

// Since returns what was answered at a time or later.
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

// Forget drops results before a time, except for the last of each probe.
func (p *Prober) Forget(before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes = slices.DeleteFunc(p.probes, func(probe *history.Probe) bool {
		return probe.Last.Before(before) && p.last[probe.Request] != probe
	})
}

// Restart separates the results of a process that has ended from those of the next one, which is
// about to start. A probe that is under way may have been answered by either, and is dropped.
func (p *Prober) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process++
	clear(p.last)
}

// Workload returns whether the process had work when its metrics were last read, and when that
// was. It is not known without such metrics, and before the first reading of a process.
func (p *Prober) Workload() (work history.ProbeResult, at time.Time, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probe, known := p.last[history.Work]
	if !known {
		return "", time.Time{}, false
	}
	return probe.Result, probe.Last, true
}

// Unread returns why the metrics could not be read last; nil if they were or have not been tried.
func (p *Prober) Unread() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unread
}

func (p *Prober) current() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

func (p *Prober) run(ctx context.Context) {
	isReady, before := false, 0
	for n := 0; ; n++ {
		process := p.current()
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
func (p *Prober) checkReady(ctx context.Context, process int) bool {
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

func (p *Prober) handshake(ctx context.Context, process int) {
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

func (p *Prober) figures(ctx context.Context, process int) {
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
func (p *Prober) note(ctx context.Context, process int, probe history.Probe) {
	if ctx.Err() != nil {
		return // the probe was cancelled, so a missing answer means nothing
	}
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if process != p.process {
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

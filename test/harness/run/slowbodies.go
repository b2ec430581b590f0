package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const (
	// bodyPart is the number of bytes of a slow body sent each second, which keep the connection busy.
	bodyPart = 4 << 10
	// continueTimeout bounds a client's wait until a server requests the body.
	continueTimeout = time.Second
)

// slowBodies holds requests at a server by bodies that it waits for.
type slowBodies struct {
	client *http.Client
	clock  clock.Clock
	size   int64
	awaits atomic.Int64 // how many bodies the server has begun to wait for
	last   atomic.Value // the last error or answer, a string
}

func newSlowBodies(c clock.Clock, size int64) *slowBodies {
	return &slowBodies{clock: c, size: size, client: &http.Client{Transport: &http.Transport{
		// A client without credentials has no CA either.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true, ExpectContinueTimeout: continueTimeout,
	}}}
}

// slowBodies returns an attack that holds step.Attack.Count requests at each webhook of each replica,
// by a client without credentials, until the next checkpoint's state is reached.
func (ex *execution) slowBodies(step scenario.Step) (func(context.Context), error) {
	size, paths := step.Attack.Size.Value(), ex.prover.webhookPaths
	if size <= 0 || len(paths) == 0 {
		return nil, errors.New("generating the attack slow-bodies: it needs a size, and an operator with webhooks")
	}
	var urls []string
	for _, r := range ex.prover.running() {
		for _, path := range paths {
			// The API server passes its timeout in the same way.
			url := fmt.Sprintf("https://127.0.0.1:%d%s?timeout=24h", r.process.Ports().Webhook, path)
			for range max(1, step.Attack.Count) {
				urls = append(urls, url)
			}
		}
	}
	a := ex.activeFault
	return func(ctx context.Context) {
		began, b := a.now(), newSlowBodies(ex.prover.clock, size)
		b.holdAll(ctx, urls)
		awaited := b.awaits.Load()
		if awaited == 0 {
			a.setVoidReason("no webhook waited for a body: %v", b.last.Load())
			return
		}
		a.record(history.FaultRecord{Began: began, Ended: a.now(), Attack: true, Detail: fmt.Sprintf(
			"slow-bodies at %d webhooks with %d requests: %d bodies of %d bytes were waited for",
			len(ex.prover.running())*len(paths), len(urls), awaited, size)})
	}, nil
}

// holdAll holds a request at each URL, and sends another one when it is answered, until ctx ends.
func (b *slowBodies) holdAll(ctx context.Context, urls []string) {
	var all sync.WaitGroup
	for _, url := range urls {
		all.Go(func() {
			for ctx.Err() == nil {
				b.last.Store(b.hold(ctx, url))
				_ = sleep(ctx, b.clock, pollInterval) // the loop looks at ctx
			}
		})
	}
	all.Wait()
}

func (b *slowBodies) hold(ctx context.Context, url string) string {
	// A server sends 100 Continue when it begins to read the body.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() { b.awaits.Add(1) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &slowBody{ctx, b.clock, b.size})
	if err != nil {
		return err.Error()
	}
	request.ContentLength = b.size
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	response, err := b.client.Do(request)
	if err != nil {
		return err.Error()
	}
	_ = response.Body.Close()
	return response.Status
}

// slowBody is a body of spaces, which every JSON decoder skips.
type slowBody struct {
	ctx   context.Context // of the request: a Read has none
	clock clock.Clock
	left  int64
}

func (b *slowBody) Read(p []byte) (int, error) {
	if err := sleep(b.ctx, b.clock, time.Second); err != nil {
		return 0, err
	}
	n := int(min(int64(len(p)), bodyPart, b.left))
	if n == 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = ' '
	}
	b.left -= int64(n)
	return n, nil
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	admissionEvery = 250 * time.Millisecond
	// Longer than the webhooks' timeoutSeconds, so the API server times out first and its error has
	// the reason.
	admissionTimeout = 15 * time.Second
)

// admission calls the webhooks by dry-run creations at a fixed rate, which a slow request does not delay.
type admission struct {
	client  client.Client
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	sent     int
	failures []refusal
}

// refusal is a failed request.
type refusal struct {
	At   time.Time
	Took time.Duration
	Err  error
}

// String returns the time, the duration and the error.
func (r refusal) String() string {
	return fmt.Sprintf("%s after %s: %v", r.At.UTC().Format("15:04:05.000"), r.Took.Round(time.Millisecond), r.Err)
}

// expectAnswered fails if a request after since has failed.
func expectAnswered(g *WithT, failures []refusal, since time.Time) {
	for _, r := range failures {
		g.Expect(r.At).To(BeTemporally("<=", since), "%s late: %s", r.At.Sub(since), r)
	}
}

// startAdmission starts the requests and returns after the first success.
func startAdmission(ctx context.Context) (*admission, error) {
	config := shared.cluster.Config()
	config.Timeout = admissionTimeout
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("building the client of the webhooks: %w", err)
	}
	a := &admission{client: c}
	if err := a.request(ctx); err != nil {
		return nil, fmt.Errorf("calling the webhooks for the first time: %w", err)
	}
	ctx, a.end = context.WithCancel(ctx)
	a.running.Go(func() {
		ticks := time.NewTicker(admissionEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				// A request in flight at the end is not cancelled.
				a.running.Go(func() { a.note(time.Now(), a.request(context.WithoutCancel(ctx))) })
			}
		}
	})
	return a, nil
}

// closedUnderCall is how the API server reports an idle connection that a replica, which stops, closed under a call.
var closedUnderCall = regexp.MustCompile(`(broken pipe|connection reset by peer|server closed idle connection|` +
	`use of closed network connection|EOF)$`)

// admitted repeats a request once if the call of its webhook met a closed connection, as docs/operations.md advises.
func admitted(request func() error) error {
	return retry.OnError(wait.Backoff{Steps: 2}, func(err error) bool {
		return apierrors.IsInternalError(err) && closedUnderCall.MatchString(err.Error())
	}, request)
}

// request succeeds when both webhooks answered: the defaulting one sets a prefix, and the API
// server rejects objects that it could not validate.
func (a *admission) request(ctx context.Context) error {
	t := newTenant("e2e-admission", "a")
	if err := admitted(func() error { return a.client.Create(ctx, t, client.DryRunAll) }); err != nil {
		return err
	}
	if t.Spec.NamespacePrefix == "" {
		return errors.New("the defaulting webhook was passed by")
	}
	return nil
}

func (a *admission) note(began time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	if err != nil {
		a.failures = append(a.failures, refusal{At: began, Took: time.Since(began), Err: err})
	}
}

// stop ends the requests and waits for those in flight.
func (a *admission) stop() (sent int, failures []refusal) {
	a.end()
	a.running.Wait()
	return a.sent, a.failures
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	admissionEvery = 250 * time.Millisecond
	// The timeout is longer than the webhooks' timeoutSeconds: the API server gives up first,
	// and its error has the reason.
	admissionTimeout = 15 * time.Second
)

// admission calls the webhooks repeatedly, by creations with dry run.
// Each request is on time, however long the one before it takes.
type admission struct {
	client  client.Client
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	sent     int
	failures []refusal
}

// refusal is a request that was not answered.
type refusal struct {
	At   time.Time
	Took time.Duration
	Err  error
}

// String returns the time, the duration and the error.
func (r refusal) String() string {
	return fmt.Sprintf("%s after %s: %v", r.At.UTC().Format("15:04:05.000"), r.Took.Round(time.Millisecond), r.Err)
}

// expectAnswered fails for a request that was not answered since then.
func expectAnswered(g *WithT, failures []refusal, since time.Time) {
	for _, r := range failures {
		g.Expect(r.At).To(BeTemporally("<=", since), "%s late: %s", r.At.Sub(since), r)
	}
}

// startAdmission starts the calls. It returns after the first answer.
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
				// A request that was sent is waited for, also at the end.
				a.running.Go(func() { a.note(time.Now(), a.request(context.WithoutCancel(ctx))) })
			}
		}
	})
	return a, nil
}

// request succeeds when both webhooks answered: the defaulting one sets a prefix, and
// the API server takes nothing that the validating one has not seen.
func (a *admission) request(ctx context.Context) error {
	t := newTenant("e2e-admission", "a")
	if err := a.client.Create(ctx, t, client.DryRunAll); err != nil {
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

// stop ends it, once all requests have been answered or given up.
func (a *admission) stop() (sent int, failures []refusal) {
	a.end()
	a.running.Wait()
	return a.sent, a.failures
}

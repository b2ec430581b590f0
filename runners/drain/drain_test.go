package drain_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContext(t *testing.T) {
	for name, delay := range map[string]time.Duration{"AtOnce": 0, "Later": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				parent, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
				ctx := drain.New(delay, clock.RealClock{}).Context(parent)
				synctest.Wait()
				if ctx.Err() != nil {
					t.Fatal("it is done before the parent is")
				}
				if ctx.Value(key{}) != "kept" {
					t.Error("the context has lost the values of its parent")
				}
				began := clock.RealClock{}.Now()
				stop()
				<-ctx.Done()
				if took := (clock.RealClock{}).Since(began); took != delay {
					t.Errorf("it was done after %s, want %s", took, delay)
				}
			})
		})
	}
}

// A client that sends requests all the time gets all responses. Its connection is closed before the
// manager stops.
func TestWebhooksCloseConnectionsWhileDraining(t *testing.T) {
	g := NewWithT(t)
	parent, stop := context.WithCancel(t.Context())
	clock := clocktesting.NewFakeClock(time.Time{})
	d := drain.New(time.Second, clock)
	mux := http.NewServeMux()
	d.Webhooks(webhook.NewServer(webhook.Options{WebhookMux: mux})).Register("/validate",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "allowed") }))
	serving := httptest.NewServer(mux)
	defer serving.Close()

	closes := func(g Gomega) bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serving.URL+"/validate", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := serving.Client().Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		g.Expect(response).To(HaveHTTPBody("allowed"))
		return response.Close
	}
	ctx := d.Context(parent)
	g.Expect(closes(g)).To(BeFalse(), "no stop was requested")
	stop()
	g.Eventually(closes).Should(BeTrue(), "it drains")
	g.Expect(closes(g)).To(BeTrue())
	g.Expect(ctx.Err()).NotTo(HaveOccurred(), "it has not stopped")

	g.Eventually(clock.HasWaiters).Should(BeTrue())
	clock.Step(time.Second)
	g.Eventually(ctx.Done()).Should(BeClosed())
}

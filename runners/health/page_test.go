package health_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/health"
)

func TestPage(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	progress := health.NewProgress(time.Minute, clock)
	queue := progress.NewQueue("page", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	elected := make(chan struct{})
	handler := health.Page("manager-0", elected, progress)
	get := func() string {
		t.Helper()
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/json" {
			t.Errorf("GET: %d, %v", answer.Code, answer.Header())
		}
		return answer.Body.String()
	}
	expect := func(reason, want string) {
		t.Helper()
		if diff := cmp.Diff(want+"\n", get()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}

	for _, name := range []string{"secret-project", "other"} {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: name}})
	}
	expect("a standby with a warm queue",
		`{"replica":"manager-0","leader":false,"controllers":[{"name":"page","working":false,"queued":2,"running":0,"oldestSeconds":0,"started":0}]}`)

	close(elected)
	if _, shutdown := queue.Get(); shutdown {
		t.Fatal("the queue is shut down")
	}
	clock.Step(90 * time.Second)
	expect("a leader with one reconcile under way",
		`{"replica":"manager-0","leader":true,"controllers":[{"name":"page","working":true,"queued":1,"running":1,"oldestSeconds":90,"started":1}]}`)
}

func TestPageIsReadOnly(t *testing.T) {
	handler := health.Page("manager-0", nil, health.NewProgress(time.Minute, testingclock.NewFakeClock(time.Unix(0, 0))))
	for method, want := range map[string]int{
		http.MethodGet: http.StatusOK, http.MethodHead: http.StatusOK,
		http.MethodPost: http.StatusMethodNotAllowed, http.MethodPut: http.StatusMethodNotAllowed,
		http.MethodDelete: http.StatusMethodNotAllowed,
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d", method, answer.Code, want)
		}
		header := answer.Header()
		if allow := header.Get("Allow"); (allow == "GET, HEAD") != (want == http.StatusMethodNotAllowed) {
			t.Errorf("%s: allows %q", method, allow)
		}
		if cached := header.Get("Cache-Control"); (cached == "no-store") != (want == http.StatusOK) {
			t.Errorf("%s: Cache-Control %q: the state of a moment is not to be kept", method, cached)
		}
	}
}

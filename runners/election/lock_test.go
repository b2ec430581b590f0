package election

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var lease = types.NamespacedName{Namespace: "system", Name: "lease"}

func TestIdentity(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const uuid = `_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	cases := map[string]struct{ pod, want string }{
		"Pod":     {"manager-0", "^manager-0" + uuid},
		"Outside": {"", "^" + regexp.QuoteMeta(hostname) + uuid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Options{Lease: lease, PodName: tc.pod, RenewDeadline: time.Second, Clock: clock.RealClock{}}
			first, err := NewLock(&rest.Config{}, o)
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(tc.want).MatchString(first.Identity()) {
				t.Errorf("Identity() = %q, want it to match %s", first.Identity(), tc.want)
			}
			second, err := NewLock(&rest.Config{}, o)
			if err != nil {
				t.Fatal(err)
			}
			if first.Identity() == second.Identity() {
				t.Errorf("two locks share the identity %q", first.Identity())
			}
			if got, want := first.Describe(), "system/lease"; got != want {
				t.Errorf("Describe() = %q, want %q", got, want)
			}
		})
	}
}

func TestClientConfig(t *testing.T) {
	shared := &rest.Config{QPS: 1, Burst: 1, Timeout: time.Hour, RateLimiter: flowcontrol.NewFakeNeverRateLimiter()}
	cases := map[string]struct{ renewDeadline, want time.Duration }{
		"Half":  {10 * time.Second, 5 * time.Second},
		"Floor": {time.Second, time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			own := clientConfig(shared, tc.renewDeadline)
			if own.Timeout != tc.want {
				t.Errorf("Timeout = %s, want %s", own.Timeout, tc.want)
			}
			if own.RateLimiter != nil || own.QPS != electionQPS || own.Burst != electionBurst {
				t.Error("the election shares the workers' rate limit")
			}
		})
	}
	if shared.QPS != 1 || shared.Timeout != time.Hour || shared.RateLimiter == nil {
		t.Error("the shared config was changed")
	}
}

// leaseServer keeps one Lease, as much of an API server as the lock needs.
func leaseServer(t *testing.T) *rest.Config {
	t.Helper()
	var stored *coordinationv1.Lease
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.UserAgent(), "leader-election") {
			t.Errorf("user agent %q does not say leader-election", r.UserAgent())
		}
		switch {
		case r.Method == http.MethodPost || r.Method == http.MethodPut:
			stored = &coordinationv1.Lease{}
			if err := json.NewDecoder(r.Body).Decode(stored); err != nil {
				t.Errorf("decoding a Lease: %v", err)
			}
		case r.Method == http.MethodDelete:
			stored = nil
			fallthrough
		case stored == nil:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		_ = json.NewEncoder(w).Encode(stored)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func TestElectionEventsGoToTheRecorder(t *testing.T) {
	lock, err := NewLock(leaseServer(t), Options{Lease: lease, PodName: "manager-0", RenewDeadline: time.Second, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity(), LeaseDurationSeconds: 1}
	if err := lock.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	lock.RecordEvent("became leader") // before a recorder is there: no panic, no event

	recorder := events.NewFakeRecorder(1)
	lock.RecordWith(recorder)
	lock.RecordEvent("stopped leading")
	want := "Normal LeaderElection " + lock.Identity() + " stopped leading"
	if diff := cmp.Diff(want, <-recorder.Events); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	got, _, err := lock.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.HolderIdentity != lock.Identity() {
		t.Errorf("the Lease is held by %q, want %q", got.HolderIdentity, lock.Identity())
	}
}

// A Lease that somebody deletes is made anew by its holder, not by those who wait.
func TestLeaseThatIsGone(t *testing.T) {
	const term = 15 * time.Second
	type steps struct {
		see, release, take, renew, remove, create func()
		wait                                      func(time.Duration)
	}
	cases := map[string]struct {
		reason  string
		before  func(steps) // until the one who waits finds that the Lease is gone
		after   time.Duration
		refused bool
	}{
		"AtOnce":  {"its holder may not know yet", func(s steps) { s.see(); s.remove() }, 0, true},
		"Almost":  {"nor now", func(s steps) { s.see(); s.remove() }, term - time.Millisecond, true},
		"Expired": {"its holder has given up", func(s steps) { s.see(); s.remove() }, term, false},
		"Unseen": {
			"its holder has renewed it since", func(s steps) { s.see(); s.wait(term); s.renew(); s.remove() }, term - time.Millisecond, true,
		},
		"Again": {
			"a second deletion counts from itself", func(s steps) {
				s.see()
				s.remove()
				s.see()
				s.create()
				s.wait(term)
				s.see()
				s.remove()
			}, term - time.Millisecond, true,
		},
		"Released":  {"nobody led", func(s steps) { s.see(); s.release(); s.see(); s.remove() }, 0, false},
		"Own":       {"it is the holder now", func(s steps) { s.see(); s.take(); s.remove() }, 0, false},
		"FirstEver": {"nobody was seen to lead", func(s steps) { s.remove() }, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server, now := leaseServer(t), clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			lockOf := func(pod string) *Lock {
				lock, err := NewLock(server, Options{Lease: lease, PodName: pod, RenewDeadline: 2 * term, Clock: now})
				if err != nil {
					t.Fatal(err)
				}
				return lock
			}
			holder, waiting := lockOf("holder"), lockOf("waiting")
			by := func(identity string) resourcelock.LeaderElectionRecord {
				return resourcelock.LeaderElectionRecord{
					HolderIdentity: identity, LeaseDurationSeconds: int(term / time.Second), RenewTime: metav1.NewTime(now.Now())}
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			look := func() {
				if _, _, err := waiting.Get(t.Context()); !apierrors.IsNotFound(err) {
					must(err)
				}
			}
			create := func() { must(holder.Create(t.Context(), by(holder.Identity()))) }
			create()
			tc.before(steps{
				see: look, create: create,
				release: func() { must(holder.Update(t.Context(), by(""))) },
				take:    func() { must(waiting.Update(t.Context(), by(waiting.Identity()))) },
				renew:   func() { must(holder.Update(t.Context(), by(holder.Identity()))) },
				remove: func() {
					if err := holder.Client.Leases(lease.Namespace).Delete(t.Context(), lease.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
						must(err)
					}
				},
				wait: func(d time.Duration) { now.SetTime(now.Now().Add(d)) },
			})
			look()
			now.SetTime(now.Now().Add(tc.after))
			look()
			if err := waiting.Create(t.Context(), by(waiting.Identity())); (err != nil) != tc.refused {
				t.Errorf("%s: Create() = %v, want refused: %t", tc.reason, err, tc.refused)
			}
			if err := holder.Create(t.Context(), by(holder.Identity())); err != nil {
				t.Errorf("its holder makes it anew: Create() = %v", err)
			}
		})
	}
}

// A leader that could not renew in time asks nothing any more: giving the Lease back
// to an API server that does not answer would take as long as one request may.
func TestALeaderDoesNotOutstayItsLease(t *testing.T) {
	const renewDeadline, retryPeriod = 10 * time.Second, 2 * time.Second
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason string
		after  time.Duration // since it was last renewed
		others bool          // somebody else was seen to lead
		asked  bool
	}{
		"InTime":   {"it may be lucky", renewDeadline + retryPeriod - time.Second, false, true},
		"TooLate":  {"the elector has given up", renewDeadline + retryPeriod, false, false},
		"NotOurs":  {"who waits may wait for ever", time.Hour, true, true},
		"WayAfter": {"whatever became of it", time.Hour, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakePassiveClock(start)
			asked := 0
			config := leaseServer(t)
			config.Wrap(func(to http.RoundTripper) http.RoundTripper {
				return counter(func(r *http.Request) (*http.Response, error) {
					if err := r.Context().Err(); err != nil {
						return nil, err // as the transport does before it dials
					}
					asked++
					return to.RoundTrip(r)
				})
			})
			lock, err := NewLock(config, Options{Lease: lease, PodName: "manager-0", RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Clock: now})
			if err != nil {
				t.Fatal(err)
			}
			record := resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity(), LeaseDurationSeconds: 15}
			if err := lock.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			if tc.others {
				record.HolderIdentity = "another"
			}
			if err := lock.Update(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			asked = 0
			now.SetTime(start.Add(tc.after))
			_, _, err = lock.Get(t.Context())
			if (asked > 0) != tc.asked || (err == nil) != tc.asked {
				t.Errorf("%s: Get() = %v, asked %d times, want asked: %t", tc.reason, err, asked, tc.asked)
			}
			record.HolderIdentity = ""
			err = lock.Update(t.Context(), record)
			if (asked > 1) != tc.asked || (err == nil) != tc.asked {
				t.Errorf("%s: Update() = %v, asked %d times, want asked: %t", tc.reason, err, asked, tc.asked)
			}
		})
	}
}

// counter is a client's way to the server.
type counter func(*http.Request) (*http.Response, error)

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

// A request that hangs ends with the Lease, though the client would wait for longer.
func TestWhatHangsEndsWithTheLease(t *testing.T) {
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			select {
			case <-r.Context().Done():
			case <-hangs:
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&coordinationv1.Lease{})
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hangs) })
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := clocktesting.NewFakePassiveClock(start)
	lock, err := NewLock(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Options{Lease: lease, PodName: "manager-0", RenewDeadline: time.Minute, RetryPeriod: time.Second, Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity()}); err != nil {
		t.Fatal(err)
	}
	now.SetTime(start.Add(61*time.Second - 50*time.Millisecond))
	began := clock.RealClock{}.Now()
	if _, _, err := lock.Get(t.Context()); err == nil {
		t.Error("a request that hangs was answered")
	}
	// Half of the renew deadline is what the client waits.
	if took := (clock.RealClock{}).Since(began); took > 20*time.Second {
		t.Errorf("it led on for %s", took)
	}
}

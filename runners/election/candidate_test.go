// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

var lease = types.NamespacedName{Namespace: "system", Name: "lease"}

const (
	leaseTime   = 15 * time.Second
	renewTime   = 10 * time.Second
	retryPeriod = 2 * time.Second
)

// wallClock is a machine's clock that can be set without an effect on timers.
type wallClock struct {
	clock.RealClock
	mu  sync.Mutex
	off time.Duration
}

// Now has no monotonic reading, so differences include changes of the clock.
func (c *wallClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.RealClock.Now().Round(0).Add(c.off)
}

func (c *wallClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// candidate is a replica with the stock elector.
type candidate struct {
	name    string
	clock   *wallClock
	lock    *Lock
	led     chan struct{} // closed when it leads
	lost    chan string
	done    chan struct{}
	release context.CancelFunc // stops it gracefully
	events  []string

	mu     sync.Mutex
	logged []string // messages
}

// log returns the log so far. Watches log from their own goroutines.
func (c *candidate) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.logged)
}

// join starts a candidate in the bubble of the test.
func join(t *testing.T, a *api, name string, change ...func(*Options)) *candidate {
	t.Helper()
	return joinWith(t, a, name, func(lock *Lock) resourcelock.Interface { return lock }, change...)
}

// joinWith starts a candidate whose elector uses the lock that as returns.
func joinWith(t *testing.T, a *api, name string, as func(*Lock) resourcelock.Interface,
	change ...func(*Options)) *candidate {
	t.Helper()
	c := &candidate{name: name, clock: &wallClock{}, led: make(chan struct{}), lost: make(chan string, 1),
		done: make(chan struct{})}
	began := clock.RealClock{}.Now()
	o := Options{
		Lease: lease, PodName: name, PodUID: types.UID(name + "-uid"), Container: "manager",
		RenewDeadline: renewTime, RetryPeriod: retryPeriod, Evidence: true,
		Clock: c.clock, Elapsed: func() time.Duration { return clock.RealClock{}.Since(began) },
		Lost: func(reason string) { c.lost <- reason },
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if c.lock, err = NewLock(a.config(name), o); err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(100)
	c.lock.RecordWith(recorder)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: as(c.lock), LeaseDuration: leaseTime, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.led) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, args string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.logged = append(c.logged, args)
	}, funcr.Options{})))
	c.release = cancel
	go func() {
		defer close(c.done)
		elector.Run(ctx)
		close(recorder.Events)
		for e := range recorder.Events {
			c.events = append(c.events, e)
		}
	}()
	return c
}

// leads reports whether the candidate holds the Lease when all goroutines are blocked.
func (c *candidate) leads(a *api) bool {
	synctest.Wait()
	stored := a.lease()
	return stored != nil && ptr.Deref(stored.Spec.HolderIdentity, "") == c.lock.Identity()
}

// stop ends the candidate and waits.
func (c *candidate) stop() {
	c.release()
	<-c.done
}

// vanish ends the candidate like a crash: none of its requests is delivered any more. Its watches
// and timers continue without an effect.
func (c *candidate) vanish(a *api) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead == nil {
		a.dead = map[string]bool{}
	}
	a.dead[c.name] = true
}

// count returns the number of requests of this form.
func count(requests []string, wanted ...string) int {
	n := 0
	for _, r := range requests {
		if slices.Contains(wanted, r) {
			n++
		}
	}
	return n
}

// pass advances the time.
func pass(d time.Duration) {
	<-clock.RealClock{}.After(d)
	synctest.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// suspended is the clock of a machine that can be suspended, during which timers stop.
type suspended struct {
	began time.Time
	slept time.Duration
}

func (s *suspended) elapsed() time.Duration {
	return clock.RealClock{}.Since(s.began) + s.slept
}

// newTestTerm returns a term with its machine, and how often it was lost.
func newTestTerm() (*Term, *suspended, *atomic.Int32) {
	machine, lost := &suspended{began: clock.RealClock{}.Now()}, &atomic.Int32{}
	return newTerm(machine.elapsed, clock.RealClock{}, func(string) { lost.Add(1) }, leaseTime), machine, lost
}

func TestTerm(t *testing.T) {
	for name, tc := range map[string]struct {
		live    func(*Term, *suspended)
		allowed bool
		lost    int32
	}{
		"NeverLed":     {func(*Term, *suspended) {}, false, 0},
		"Leads":        {func(t *Term, m *suspended) { t.extend(m.elapsed(), leaseTime) }, true, 0},
		"BeforeMargin": {func(t *Term, m *suspended) { t.extend(m.elapsed(), leaseTime); pass(leaseTime*9/10 - 1) }, true, 0},
		"InMargin": {func(t *Term, m *suspended) { t.extend(m.elapsed(), leaseTime); pass(leaseTime * 9 / 10) }, false,
			0},
		"Ended": {func(t *Term, m *suspended) { t.extend(m.elapsed(), leaseTime); pass(leaseTime) }, false, 1},
		"Renewed": {func(t *Term, m *suspended) {
			for range 10 {
				t.extend(m.elapsed(), leaseTime)
				pass(leaseTime / 2)
			}
		}, true, 0},
		"Released": {func(t *Term, m *suspended) { t.extend(m.elapsed(), leaseTime); t.finish(); pass(2 * leaseTime) }, false,
			0},
		"Suspended": {func(t *Term, m *suspended) {
			t.extend(m.elapsed(), leaseTime)
			m.slept = leaseTime
		}, false, 1},
		"LostTwice": {func(t *Term, m *suspended) {
			t.extend(m.elapsed(), leaseTime)
			t.lose("another holder")
			pass(2 * leaseTime)
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term, machine, lost := newTestTerm()
				tc.live(term, machine)
				if err := term.check(); (err == nil) != tc.allowed {
					t.Errorf("check() = %v, want allowed: %t", err, tc.allowed)
				}
				if n := lost.Load(); n != tc.lost {
					t.Errorf("lost %d times, want %d", n, tc.lost)
				}
				term.finish()
			})
		})
	}
}

// A leader that is paused past its term is ended by a timer, before it sends anything.
func TestTerm_ends_by_timer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, machine, lost := newTestTerm()
		term.extend(machine.elapsed(), leaseTime)
		pass(leaseTime - 1)
		if lost.Load() != 0 {
			t.Error("lost too early")
		}
		pass(1)
		if n := lost.Load(); n != 1 {
			t.Errorf("lost %d times, want once", n)
		}
	})
}

// The response to a write may take long. The term counts from sending the write.
func TestTerm_begins_with_request(t *testing.T) {
	const late = 3 * time.Second
	for method, wait := range map[string]time.Duration{http.MethodPost: 0, http.MethodPut: retryPeriod} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := clock.RealClock{}.Now()
				var slept atomic.Int64
				elapsed := func() time.Duration { return clock.RealClock{}.Since(began) + time.Duration(slept.Load()) }
				a := newAPI(t)
				a.fail(func(verb, _ string) error {
					switch verb {
					case method:
						slept.Add(int64(late))
					case http.MethodPut:
						return errors.New("no answer") // a renewal follows the first claim at once
					}
					return nil
				})
				leader := join(t, a, "only", func(o *Options) { o.Elapsed = elapsed })
				<-leader.led
				pass(wait)
				term := leader.lock.Term()
				term.mu.Lock()
				left := term.end - elapsed()
				term.mu.Unlock()
				if want := leaseTime - late; left != want {
					t.Errorf("the term lasts for %s after the answer, want %s", left, want)
				}
				leader.stop()
			})
		})
	}
}

// The response to a read is as old as its request: the Lease may have changed since.
func TestRead_begins_with_request(t *testing.T) {
	for verb, read := range map[string]func(context.Context, *standby){
		http.MethodGet: func(ctx context.Context, s *standby) { s.read(ctx, s.elapsed()) },
		"LIST": func(ctx context.Context, s *standby) {
			s.leases.start(ctx, lease.Name)
			s.seeLease(ctx, <-s.leases.sightings)
			s.leases.stop()
		},
	} {
		for name, held := range map[string]bool{"Held": true, "NoLease": false} {
			t.Run(verb+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAPI(t)
					if held {
						a.put(version("", "other_1", 1))
					}
					var now atomic.Int64
					a.fail(func(of, _ string) error {
						if of == verb {
							now.Add(int64(time.Second))
						}
						return nil
					})
					lock, err := NewLock(a.config("standby"), Options{
						Lease: lease, PodName: "standby", RenewDeadline: renewTime, RetryPeriod: retryPeriod, Clock: clock.RealClock{},
						Elapsed: func() time.Duration { return time.Duration(now.Load()) },
					})
					if err != nil {
						t.Fatal(err)
					}
					s := lock.standby
					s.view.readAt = -1
					read(t.Context(), s)
					if s.view.readAt != 0 || !s.view.known || (s.view.lease != nil) != held {
						t.Errorf("read at %s, known %t, held %t, want it read at 0s", s.view.readAt, s.view.known, s.view.lease != nil)
					}
				})
			})
		}
	}
}

// A leader without responses ends when its elector gives up. It does not wait for the end of the
// term to release the Lease.
func TestLeaderWithoutResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		pass(retryPeriod / 2) // it has renewed just now
		d.hang(d.leader.name)
		pass(renewTime + retryPeriod - time.Second)
		select {
		case <-d.leader.done:
			t.Error("it gave up before the renew deadline")
		default:
		}
		pass(2 * time.Second)
		select {
		case <-d.leader.done:
		default:
			t.Error("it had not ended a second after the renew deadline")
		}
		d.end()
	})
}

// A leader that renews with its last attempt before the renew deadline continues.
func TestLeaderRetriesUntilRenewDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		pass(retryPeriod / 2) // it has renewed just now
		d.fail(func(string, string) error { return errors.New("no answer") })
		pass(renewTime - retryPeriod/2)
		d.fail(nil)
		pass(2 * retryPeriod)
		select {
		case <-d.leader.done:
			t.Error("it gave up though its Lease was renewed in time")
		default:
		}
		if !d.leader.leads(d.api) {
			t.Errorf("the Lease is %+v, want it held by the leader", d.lease())
		}
		d.end()
	})
}

// The next leader may act before the answer to a release arrives.
func TestTermEndsBeforeRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		var released atomic.Int32
		d.fail(func(verb, _ string) error {
			if verb == http.MethodPut {
				released.Add(1)
				if err := d.leader.lock.Term().check(); !errors.Is(err, ErrNotLeading) {
					t.Errorf("check() = %v when the release is sent, want %v", err, ErrNotLeading)
				}
			}
			return nil
		})
		d.leader.stop()
		if released.Load() == 0 {
			t.Error("nothing was released")
		}
		d.end()
	})
}

func TestSinceBootAdvances(t *testing.T) {
	before := SinceBoot()
	if after := SinceBoot(); before <= 0 || after < before {
		t.Errorf("SinceBoot() = %s, then %s", before, after)
	}
	if wall := time.Duration(clock.RealClock{}.Now().UnixNano()); before > wall/2 {
		t.Errorf("SinceBoot() = %s, want a clock that cannot be set", before)
	}
}

func TestTermWithoutLostCallback(t *testing.T) {
	term := newTerm(SinceBoot, clock.RealClock{}, nil, leaseTime)
	term.extend(SinceBoot(), leaseTime)
	term.lose("another holds the Lease")
	if err := term.check(); !errors.Is(err, ErrNotLeading) {
		t.Errorf("check() = %v after the loss", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

func TestIdentity(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const uuid = `_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	for name, tc := range map[string]struct{ pod, want string }{
		"Pod":     {"manager-0", "^manager-0" + uuid},
		"Outside": {"", "^" + regexp.QuoteMeta(hostname) + uuid},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Lease: lease, PodName: tc.pod, RenewDeadline: time.Second, RetryPeriod: time.Second,
				Clock: clock.RealClock{}}
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
			// The default is not the time since the start of the process.
			if now, least := first.elapsed(), SinceBoot()-time.Second; now < least {
				t.Errorf("elapsed() = %s, want the time since the boot, %s", now, least)
			}
			if got, want := first.Describe(), "system/lease"; got != want {
				t.Errorf("Describe() = %q, want %q", got, want)
			}
		})
	}
}

func TestNewLock_invalid_options(t *testing.T) {
	for want, o := range map[string]Options{
		"renew deadline": {RetryPeriod: 1, Clock: clock.RealClock{}},
		"retry period":   {RenewDeadline: 1, Clock: clock.RealClock{}},
		"clock":          {RenewDeadline: 1, RetryPeriod: 1},
	} {
		if _, err := NewLock(&rest.Config{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLock() = %v, want an error about the %s", err, want)
		}
	}
}

func TestClientConfig(t *testing.T) {
	shared := &rest.Config{QPS: 1, Burst: 1, Timeout: time.Hour, RateLimiter: flowcontrol.NewFakeNeverRateLimiter()}
	for name, tc := range map[string]struct{ renewDeadline, want time.Duration }{
		"Half":  {10 * time.Second, 5 * time.Second},
		"Floor": {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			own := clientConfig(shared, tc.renewDeadline)
			if own.Timeout != tc.want {
				t.Errorf("Timeout = %s, want %s", own.Timeout, tc.want)
			}
			if own.RateLimiter != nil || own.QPS != 20 || own.Burst != 40 {
				t.Error("the election shares the workers' rate limit")
			}
		})
	}
	if shared.QPS != 1 || shared.Timeout != time.Hour || shared.RateLimiter == nil {
		t.Error("the shared config was changed")
	}
}

// Of many standbys one wins, and no other writes a second time.
func TestManyStandbys(t *testing.T) {
	for name, lose := range map[string]func(*api, *candidate){
		"Released": func(_ *api, leader *candidate) { leader.stop() },
		"Evidence": func(a *api, leader *candidate) {
			leader.vanish(a)
			a.put(terminated("leader", clock.RealClock{}.Now()))
		},
		"Expired": func(a *api, leader *candidate) { leader.vanish(a) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.put(podOf("leader"))
				leader := join(t, a, "leader")
				<-leader.led
				standbys := make([]*candidate, 20)
				for i := range standbys {
					standbys[i] = join(t, a, fmt.Sprintf("standby-%d", i))
				}
				pass(5*retryPeriod + retryPeriod/2)
				before := ptr.Deref(a.lease().Spec.LeaseTransitions, 0)
				a.take()
				lose(a, leader)
				pass(leaseTime + time.Second)
				winners := 0
				requests := a.take()
				for _, s := range standbys {
					writes := count(requests, "PUT leases "+s.name)
					if s.leads(a) {
						winners++
					} else if writes > 1 {
						t.Errorf("%s wrote %d times", s.name, writes)
					}
				}
				if winners != 1 {
					t.Errorf("%d winners", winners)
				}
				transitions := func(want int32) {
					if got := ptr.Deref(a.lease().Spec.LeaseTransitions, 0); got != want {
						t.Errorf("%d transitions, want %d", got, want)
					}
				}
				transitions(before + 1)
				// The next winner lost the first race. Its renewals keep the count.
				for _, s := range standbys {
					if s.leads(a) {
						s.stop()
						break
					}
				}
				pass(3 * retryPeriod)
				transitions(before + 2)
				leader.stop()
				for _, s := range standbys {
					s.stop()
				}
			})
		})
	}
}

// A restarted container leads at its first attempt, though its Lease has not expired.
func TestPreviousProcessOfSamePod(t *testing.T) {
	for name, tc := range map[string]struct {
		uid    types.UID
		atOnce bool
	}{"SamePod": {"only-uid", true}, "AnotherPodOfTheName": {"another-uid", false}, "Unknown": {"", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				first := join(t, a, "only")
				<-first.led
				pass(retryPeriod)
				first.vanish(a)
				second := join(t, a, "only-again", func(o *Options) { o.PodName, o.PodUID = "only", tc.uid })
				pass(time.Second)
				if got := second.leads(a); got != tc.atOnce {
					t.Errorf("leads: %t, want %t", got, tc.atOnce)
				}
				first.stop()
				second.stop()
			})
		})
	}
}

// The elector computes its times before Get, which may block for days.
func TestRecordedTimesAreOfTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		pass(time.Hour)
		d.leader.stop()
		d.takesOver(t, time.Second)
		now := d.leader.clock.Now()
		for field, at := range map[string]time.Time{"acquire": d.lease().Spec.AcquireTime.Time,
			"renew": d.lease().Spec.RenewTime.Time} {
			if age := now.Sub(at); age < 0 || age > time.Second {
				t.Errorf("the %s time is %s old", field, age)
			}
		}
		acquired := d.lease().Spec.AcquireTime.Time
		pass(10 * retryPeriod)
		if got := d.lease().Spec.AcquireTime.Time; !got.Equal(acquired) {
			t.Errorf("a renewal changed the acquire time from %s to %s", acquired, got)
		}
		if age := d.leader.clock.Now().Sub(d.lease().Spec.RenewTime.Time); age > retryPeriod {
			t.Errorf("the last renewal is %s old", age)
		}
		d.end()
	})
}

// A write without a response may have succeeded. The watch shows the result.
func TestTakeover_without_response(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.fail(func(verb, _ string) error {
			if verb == http.MethodPut {
				return errors.New("no answer")
			}
			return nil
		})
		stored := d.lease()
		stored.Spec.HolderIdentity = ptr.To("")
		d.put(stored)
		pass(retryPeriod / 4)
		// The requests succeed again before the watch shows the write: a second failed claim
		// would wait for a live read.
		d.fail(nil)
		stored.Spec.HolderIdentity = ptr.To(d.standby.lock.Identity())
		d.put(stored)
		synctest.Wait()
		select {
		case <-d.standby.led:
		default:
			t.Error("it holds the Lease and does not report it")
		}
		d.end()
	})
}

// A leader that reads another holder, or that cannot renew, has lost.
func TestLost(t *testing.T) {
	for name, tc := range map[string]struct {
		lose   func(*duel)
		within time.Duration
		want   string
	}{
		"AnotherHolder": {func(d *duel) {
			stored := d.lease()
			stored.Spec.HolderIdentity = ptr.To("thief")
			d.put(stored)
		}, retryPeriod, "thief holds the Lease"},
		"TermEnded": {func(d *duel) { d.leader.vanish(d.api) }, leaseTime, "the Lease was not renewed in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDuel(t)
				tc.lose(d)
				pass(tc.within)
				select {
				case reason := <-d.leader.lost:
					if reason != tc.want {
						t.Errorf("lost: %s, want %s", reason, tc.want)
					}
				default:
					t.Error("it was not lost")
				}
				if err := d.leader.lock.Term().check(); !errors.Is(err, ErrNotLeading) {
					t.Errorf("check() = %v after the loss", err)
				}
				pass(renewTime + retryPeriod)
				select {
				case <-d.leader.done:
				default:
					t.Error("the elector runs after the renew deadline")
				}
				d.end()
			})
		})
	}
}

// A leader keeps its Lease beside a standby, whatever an administrator does to the object. The holder
// creates a deleted Lease again. A label or an annotation costs a Conflict and stays.
func TestLeaderKeepsLease(t *testing.T) {
	for name, disturb := range map[string]func(*duel){
		"Deleted": func(d *duel) { d.remove("leases", lease.Name) },
		"Labelled": func(d *duel) {
			for range 3 {
				stored := d.lease()
				stored.Labels = map[string]string{"touched": stored.ResourceVersion}
				stored.Annotations["touched"] = "yes"
				d.put(stored)
				pass(2 * retryPeriod)
			}
			if stored := d.lease(); len(stored.Labels) == 0 || stored.Annotations["touched"] != "yes" {
				d.t.Errorf("the Lease is %+v, want it with its label and its annotation", stored)
			}
		},
		"WithoutHolder": func(d *duel) {
			d.standby.vanish(d.api) // it would take a Lease that looks released
			stored := d.lease()
			stored.Spec.HolderIdentity = ptr.To("")
			d.put(stored)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDuel(t)
				disturb(d)
				for _, wait := range []time.Duration{retryPeriod, 2 * leaseTime} {
					pass(wait)
					if !d.leader.leads(d.api) || len(d.leader.lost) > 0 {
						t.Errorf("the Lease is %+v, want it held by the leader", d.lease())
					}
				}
				d.end()
			})
		})
	}
}

// A standby that is stopped neither writes nor reports an error. A leader that is stopped
// leaves a Lease without a holder.
func TestStandbyStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.take()
		d.standby.stop()
		if n := count(d.take(), "PUT leases second"); n != 0 {
			t.Errorf("it wrote %d times", n)
		}
		if log := d.standby.log(); len(log) != 1 {
			t.Errorf("it logs %q, want only that it began", log)
		}
		d.end()
		if left := d.lease(); *left.Spec.HolderIdentity != "" || len(left.Annotations) != 0 {
			t.Errorf("the leader left %+v", left)
		}
	})
}

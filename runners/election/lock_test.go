package election

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			o := Options{Lease: lease, PodName: tc.pod, RenewDeadline: time.Second, RetryPeriod: time.Second, Clock: clock.RealClock{}}
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

func TestNewLockRefusesOptions(t *testing.T) {
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
			if own.RateLimiter != nil || own.QPS != electionQPS || own.Burst != electionBurst {
				t.Error("the election shares the workers' rate limit")
			}
		})
	}
	if shared.QPS != 1 || shared.Timeout != time.Hour || shared.RateLimiter == nil {
		t.Error("the shared config was changed")
	}
}

// duel is a leader that has renewed some times and a standby that has watched it.
type duel struct {
	*api
	leader, standby *candidate
}

func newDuel(t *testing.T, change ...func(*Options)) *duel {
	t.Helper()
	a := newAPI(t)
	a.put(podOf("first"))
	a.put(podOf("second"))
	d := &duel{api: a, leader: join(t, a, "first", change...)}
	<-d.leader.led
	d.standby = join(t, a, "second", change...)
	pass(5*retryPeriod + retryPeriod/2)
	if !d.leader.leads(a) {
		t.Fatal("the first does not lead")
	}
	return d
}

// podOf is the Pod of a candidate whose container runs.
func podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, // for the frames of a watch
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: name, UID: types.UID(name + "-uid")},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name:  "manager",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(clock.RealClock{}.Now().Add(-time.Minute))}},
		}}},
	}
}

// terminated is that Pod after its container has ended just now.
func terminated(name string, finished time.Time) *corev1.Pod {
	pod := podOf(name)
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, FinishedAt: metav1.NewTime(finished)}}
	return pod
}

// takesOver measures how long the standby waits, in steps of 10 ms.
func (d *duel) takesOver(t *testing.T, atMost time.Duration) time.Duration {
	t.Helper()
	began := clock.RealClock{}.Now()
	for waited := time.Duration(0); waited <= atMost; waited = d.standby.clock.RealClock.Since(began) {
		if d.standby.leads(d.api) {
			return clock.RealClock{}.Since(began)
		}
		pass(10 * time.Millisecond)
	}
	t.Fatalf("nobody took over within %s: %+v", atMost, d.lease())
	return 0
}

func (d *duel) end() {
	d.leader.stop()
	d.standby.stop()
}

func (d *duel) expect(t *testing.T, took, least, most time.Duration, reason string) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("the standby took over after %s, want %s to %s", took, least, most)
	}
	d.end()
	want := "Normal LeaderElection " + d.standby.lock.Identity() + " became leader: " + reason
	if !slices.ContainsFunc(d.standby.said, func(s string) bool { return strings.HasPrefix(s, want) }) {
		t.Errorf("events %q, want one that begins with %q", d.standby.said, want)
	}
}

func TestTakeover(t *testing.T) {
	crash := func(d *duel) { d.leader.vanish(d.api) }
	now := func() time.Time { return clock.RealClock{}.Now() }
	const atOnce = 20 * time.Millisecond
	// The leader's last renewal was half a retry period before the loss.
	const expiry = leaseTime - retryPeriod/2
	cases := map[string]struct {
		lose        func(*duel)
		least, most time.Duration
		reason      string
		options     func(*Options)
	}{
		"Released": {func(d *duel) { d.leader.stop() }, 0, atOnce, "released", nil},
		"Expired":  {crash, expiry, expiry + atOnce, "expired", nil},
		"Terminated": {func(d *duel) { crash(d); d.put(terminated("first", now())) }, 0, atOnce,
			"evidence: container manager of Pod first terminated at 2000-01-01T00:00:11Z with exit code 137", nil},
		"RestartedWhileStatusLagged": {func(d *duel) {
			crash(d)
			pod := podOf("first")
			pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(now())
			d.put(pod)
		}, 0, atOnce, "evidence: container manager of Pod first was started again", nil},
		"EndedAndDeleted": {func(d *duel) { crash(d); d.put(terminated("first", now())); d.remove("pods", "first") }, 0, atOnce, "evidence: container", nil},
		"EndedAndReplacedWhileTheLeaseIsNotRead": {func(d *duel) {
			crash(d)
			d.fail(func(verb, resource string) error {
				if verb == http.MethodGet && resource == "leases" {
					return errors.New("no answer")
				}
				return nil
			})
			d.put(terminated("first", now()))
			pass(time.Millisecond)
			d.remove("pods", "first")
			another := podOf("first")
			another.UID = "another"
			d.put(another)
			pass(time.Millisecond)
			d.fail(nil)
		}, 0, retryPeriod, "evidence: container manager of Pod first terminated", nil},
		"DeletedByForce": {func(d *duel) { crash(d); d.remove("pods", "first") }, expiry, expiry + atOnce, "expired", nil},
		"AnotherPodOfTheName": {func(d *duel) {
			crash(d)
			d.remove("pods", "first")
			pod := terminated("first", now())
			pod.UID = "another"
			d.put(pod)
		}, expiry, expiry + atOnce, "expired", nil},
		"EndedBeforeTheLease": {func(d *duel) { crash(d); d.put(terminated("first", now().Add(-time.Hour))) }, expiry, expiry + atOnce, "expired", nil},
		"EvidenceTurnedOff": {func(d *duel) { crash(d); d.put(terminated("first", now())) }, expiry, expiry + atOnce, "expired",
			func(o *Options) { o.Evidence = false }},
		"WithoutDownwardAPI": {func(d *duel) { crash(d); d.put(terminated("first", now())) }, expiry, expiry + atOnce, "expired",
			func(o *Options) { o.PodUID = "" }},
		"ClockOfTheStandbyAhead": {func(d *duel) { d.standby.clock.jump(time.Hour); crash(d) }, expiry, expiry + atOnce, "expired", nil},
		"ClockOfTheStandbyBack":  {func(d *duel) { d.standby.clock.jump(-time.Hour); crash(d) }, expiry, expiry + atOnce, "expired", nil},
		"ClockOfTheLeaderAhead":  {func(d *duel) { d.leader.clock.jump(time.Hour); pass(retryPeriod); crash(d) }, expiry, expiry + atOnce, "expired", nil},
		"ClockOfTheLeaderBack":   {func(d *duel) { d.leader.clock.jump(-time.Hour); pass(retryPeriod); crash(d) }, expiry, expiry + atOnce, "expired", nil},
		"ReconnectIsNoRenewal": {func(d *duel) {
			crash(d)
			pass(retryPeriod)
			d.send("leases", "", true)
		}, expiry - retryPeriod, expiry - retryPeriod + atOnce, "expired", nil},
		"LabelIsNoRenewal": {func(d *duel) {
			crash(d)
			pass(retryPeriod)
			stored := d.lease()
			stored.Labels = map[string]string{"touched": "yes"}
			d.put(stored)
		}, expiry - retryPeriod, expiry - retryPeriod + atOnce, "expired", nil},
		"GoneWatch": {func(d *duel) {
			d.send("leases", `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}`, true)
			pass(4 * retryPeriod)
			crash(d)
		}, expiry, expiry + atOnce, "expired", nil},
		"Bookmark": {func(d *duel) {
			crash(d)
			d.send("leases", `{"type":"BOOKMARK","object":{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1000"}}}`, false)
		}, expiry, expiry + atOnce, "expired", nil},
		"SilentWatch": {func(d *duel) { d.mute(true); pass(20 * retryPeriod); d.leader.stop() }, 0, retryPeriod, "released", nil},
		"LeaseHeldByAnOlderVersion": {func(d *duel) {
			crash(d)
			stored := d.lease()
			stored.Annotations = nil
			d.put(stored)
			d.put(terminated("first", now()))
		}, expiry, expiry + atOnce, "expired", nil},
		"AnnotationLeftByAnotherHolder": {func(d *duel) {
			crash(d)
			stored := d.lease()
			stored.Spec.HolderIdentity = new("first_of-an-older-version")
			d.put(stored)
			d.put(terminated("first", now()))
		}, leaseTime, leaseTime + atOnce, "expired", nil},
		"Deleted": {func(d *duel) { crash(d); d.remove("leases", lease.Name) }, leaseTime, leaseTime + atOnce, "there was no Lease", nil},
		"RenewedSinceItEnded": {func(d *duel) {
			d.put(terminated("first", now().Add(-3*retryPeriod)))
			pass(4 * retryPeriod)
			crash(d)
		}, expiry, expiry + atOnce, "expired", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var change []func(*Options)
				if tc.options != nil {
					change = append(change, tc.options)
				}
				d := newDuel(t, change...)
				tc.lose(d)
				d.expect(t, d.takesOver(t, 2*leaseTime), tc.least, tc.most, tc.reason)
			})
		})
	}
}

// Without the rights to watch, the standby polls, and there is no evidence.
func TestTakeoverWithoutRights(t *testing.T) {
	for resource, tc := range map[string]struct {
		lose        func(*duel)
		least, most time.Duration
		reason      string
	}{
		"pods": {func(d *duel) {
			d.leader.vanish(d.api)
			d.put(terminated("first", clock.RealClock{}.Now()))
		}, leaseTime - 2*retryPeriod, leaseTime, "expired"},
		"leases": {func(d *duel) { d.leader.stop() }, 0, retryPeriod, "released"},
	} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.put(podOf("first"))
				d := &duel{api: a, leader: join(t, a, "first")}
				<-d.leader.led
				a.fail(func(verb, of string) error {
					if of == resource && (verb == "LIST" || verb == "WATCH") {
						return statusError(http.StatusForbidden)
					}
					return nil
				})
				d.standby = join(t, a, "second")
				a.take()
				pass(10 * retryPeriod)
				if n := count(a.take(), "LIST "+resource+" second"); n > 1 {
					t.Errorf("a list that is forbidden was sent %d times", n)
				}
				tc.lose(d)
				d.expect(t, d.takesOver(t, 2*leaseTime), tc.least, tc.most, tc.reason)
			})
		})
	}
}

func TestRequestsPerRetryPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.take()
		pass(100 * retryPeriod)
		requests := d.take()
		if n := count(requests, "PUT leases first"); n < 99 || n > 101 || n != len(requests) {
			t.Errorf("%d renewals of %d requests in 100 retry periods: %q", n, len(requests), requests[:min(10, len(requests))])
		}
		d.end()
	})
}

// One read a retry period replaces a watch that is silent or broken.
func TestFallbackToReads(t *testing.T) {
	for name, tc := range map[string]struct {
		lose func(*duel)
		read string
	}{
		"Silent": {func(d *duel) { d.leader.vanish(d.api) }, "GET leases second"},
		"Broken": {func(d *duel) {
			d.fail(func(verb, _ string) error {
				if verb == "WATCH" {
					return statusError(http.StatusGone)
				}
				return nil
			})
			d.send("leases", `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}`, true)
			d.leader.vanish(d.api)
		}, "GET leases second"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDuel(t)
				tc.lose(d)
				pass(2 * retryPeriod)
				d.take()
				pass(4 * retryPeriod)
				if n := count(d.take(), tc.read); n < 3 || n > 5 {
					t.Errorf("%d live reads in 4 retry periods", n)
				}
				d.end()
			})
		})
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
				if got := ptr.Deref(a.lease().Spec.LeaseTransitions, 0); got != before+1 {
					t.Errorf("%d transitions, want one more than %d", got, before)
				}
				leader.stop()
				for _, s := range standbys {
					s.stop()
				}
			})
		})
	}
}

// A restarted container leads as soon as it asks, though its Lease has not expired.
func TestEarlierProcessOfThisPod(t *testing.T) {
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
func TestTimesAreThoseOfTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		pass(time.Hour)
		d.leader.stop()
		d.takesOver(t, time.Second)
		now := d.leader.clock.Now()
		for field, at := range map[string]time.Time{"acquire": d.lease().Spec.AcquireTime.Time, "renew": d.lease().Spec.RenewTime.Time} {
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

// A write without an answer may have succeeded.
func TestTakeoverWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.fail(func(verb, _ string) error {
			if verb == http.MethodPut {
				return errors.New("no answer")
			}
			return nil
		})
		stored := d.lease()
		stored.Spec.HolderIdentity = new("")
		d.put(stored)
		pass(time.Second)
		stored.Spec.HolderIdentity = new(d.standby.lock.Identity())
		d.put(stored)
		d.fail(nil)
		if d.standby.leads(d.api) {
			select {
			case <-d.standby.led:
			default:
				t.Error("it holds the Lease and does not know")
			}
		}
		d.end()
	})
}

// A leader that sees another holder, or that cannot renew, is lost.
func TestLost(t *testing.T) {
	for name, tc := range map[string]struct {
		lose   func(*duel)
		within time.Duration
		want   string
	}{
		"AnotherHolder": {func(d *duel) {
			stored := d.lease()
			stored.Spec.HolderIdentity = new("thief")
			d.put(stored)
		}, retryPeriod, "thief holds the Lease"},
		"TermEnded": {func(d *duel) { d.leader.vanish(d.api) }, leaseTime, "the term ended without a renewal"},
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
				d.end()
			})
		})
	}
}

// Its holder makes a deleted Lease anew, and goes on to lead.
func TestLeaderOfADeletedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.remove("leases", lease.Name)
		pass(retryPeriod)
		if !d.leader.leads(d.api) {
			t.Errorf("the Lease is %+v, want it held by the leader", d.lease())
		}
		pass(2 * leaseTime)
		if !d.leader.leads(d.api) {
			t.Error("the standby took the new Lease")
		}
		d.end()
	})
}

// A label on the Lease costs the leader a conflict and not the Lease.
func TestLeaderAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		for range 3 {
			stored := d.lease()
			stored.Labels = map[string]string{"touched": stored.ResourceVersion}
			d.put(stored)
			pass(2 * retryPeriod)
		}
		if !d.leader.leads(d.api) || len(d.lease().Labels) == 0 {
			t.Errorf("the Lease is %+v, want it held by the leader, with its label", d.lease())
		}
		d.end()
	})
}

// A standby that is stopped neither writes nor reports an error.
func TestStandbyStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.take()
		d.standby.stop()
		if n := count(d.take(), "PUT leases second"); n != 0 {
			t.Errorf("it wrote %d times", n)
		}
		d.end()
	})
}

// A Lease that names no holder's Pod in the way of this package gives no Pod to look at.
func TestHolderOf(t *testing.T) {
	acquired := metav1.NowMicro()
	for name, tc := range map[string]struct {
		identity, annotation string
		named                bool
	}{
		"Named":        {"pod-0_uuid", "pod-0_uuid/uid", true},
		"Underscores":  {"a_b_uuid", "a_b_uuid/uid", true},
		"AnotherOne":   {"pod-0_uuid", "pod-0_other/uid", false},
		"NoUID":        {"pod-0_uuid", "pod-0_uuid/", false},
		"NoAnnotation": {"pod-0_uuid", "", false},
		"NoUUID":       {"pod-0", "pod-0/uid", false},
		"NoPod":        {"_uuid", "_uuid/uid", false},
		"Nobody":       {"", "/uid", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &tc.identity, AcquireTime: &acquired}}
			if tc.annotation != "" {
				l.Annotations = map[string]string{HolderPodAnnotation: tc.annotation}
			}
			h, named := holderOf(l)
			if named != tc.named || named && (h.uid != "uid" || !strings.HasPrefix(tc.identity, h.pod+"_")) {
				t.Errorf("holderOf() = %+v, %t", h, named)
			}
		})
	}
}

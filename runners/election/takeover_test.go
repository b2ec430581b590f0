// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// duel is a leader that has renewed several times and a standby that has watched it.
type duel struct {
	*api
	leader, standby *candidate
}

// newLeader returns a duel whose leader has no standby yet.
func newLeader(t *testing.T, change ...func(*Options)) *duel {
	t.Helper()
	a := newAPI(t)
	a.put(podOf("first"))
	d := &duel{api: a, leader: join(t, a, "first", change...)}
	<-d.leader.led
	return d
}

// expectQuiet expects no requests except the leader's renewals for ten retry periods.
func (d *duel) expectQuiet(t *testing.T) {
	t.Helper()
	d.take()
	pass(10 * retryPeriod)
	if requests := d.take(); count(requests, "PUT leases first") != len(requests) {
		t.Errorf("a watch does not work: %q", requests)
	}
}

func newDuel(t *testing.T, change ...func(*Options)) *duel {
	t.Helper()
	d := newLeader(t, change...)
	d.put(podOf("second"))
	d.standby = join(t, d.api, "second", change...)
	pass(5*retryPeriod + retryPeriod/2)
	if !d.leader.leads(d.api) {
		t.Fatal("the first does not lead")
	}
	return d
}

// podOf returns the Pod of a candidate whose container runs.
func podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, // for the frames of a watch
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: name, UID: types.UID(name + "-uid")},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "manager",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(
				clock.RealClock{}.Now().Add(-time.Minute))}},
		}}},
	}
}

// terminated returns that Pod after its container has just ended.
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
	for waited := time.Duration(0); waited <= atMost; waited = d.standby.clock.Since(began) {
		if d.standby.leads(d.api) {
			return clock.RealClock{}.Since(began)
		}
		pass(10 * time.Millisecond)
	}
	t.Fatalf("no replica took over within %s: %+v", atMost, d.lease())
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
	if !slices.ContainsFunc(d.standby.events, func(s string) bool { return strings.HasPrefix(s, want) }) {
		t.Errorf("events %q, want one that begins with %q", d.standby.events, want)
	}
}

func TestTakeover(t *testing.T) {
	crash := func(d *duel) { d.leader.vanish(d.api) }
	now := func() time.Time { return clock.RealClock{}.Now() }
	const atOnce = 20 * time.Millisecond
	// The leader's last renewal was half a retry period before the loss.
	const expiry = leaseTime - retryPeriod/2
	for name, tc := range map[string]struct {
		lose        func(*duel)
		least, most time.Duration
		reason      string
		options     func(*Options)
	}{
		"Released": {func(d *duel) { d.leader.stop() }, 0, atOnce, "released", nil},
		"Expired":  {crash, expiry, expiry + atOnce, "expired", nil},
		"Terminated": {func(d *duel) { crash(d); d.put(terminated("first", now())) }, 0, atOnce,
			"evidence: container manager of Pod first terminated at 2000-01-01T00:00:11Z with exit code 137", nil},
		"EndedAndDeleted": {func(d *duel) { crash(d); d.put(terminated("first", now())); d.remove("pods", "first") }, 0,
			atOnce, "evidence: container", nil},
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
		"EvidenceTurnedOff": {func(d *duel) { crash(d); d.put(terminated("first", now())) }, expiry,
			expiry + atOnce, "expired", func(o *Options) { o.Evidence = false }},
		"WithoutDownwardAPI": {func(d *duel) { crash(d); d.put(terminated("first", now())) }, expiry,
			expiry + atOnce, "expired", func(o *Options) { o.PodUID = "" }},
		"ClockOfTheStandbyAhead": {func(d *duel) { d.standby.clock.jump(time.Hour); crash(d) }, expiry, expiry + atOnce,
			"expired", nil},
		"ClockOfTheLeaderAhead": {func(d *duel) { d.leader.clock.jump(time.Hour); pass(retryPeriod); crash(d) }, expiry,
			expiry + atOnce, "expired", nil},
		"ClockOfTheLeaderBack": {func(d *duel) { d.leader.clock.jump(-time.Hour); pass(retryPeriod); crash(d) }, expiry,
			expiry + atOnce, "expired", nil},
		"ReconnectIsNoRenewal": {func(d *duel) { crash(d); pass(retryPeriod); d.send("", true) }, expiry - retryPeriod,
			expiry - retryPeriod + atOnce, "expired", nil},
		"LabelIsNoRenewal": {func(d *duel) {
			crash(d)
			pass(retryPeriod)
			stored := d.lease()
			stored.Labels = map[string]string{"touched": "yes"}
			d.put(stored)
		}, expiry - retryPeriod, expiry - retryPeriod + atOnce, "expired", nil},
		"GoneWatch": {func(d *duel) {
			d.send(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}`, true)
			pass(4 * retryPeriod)
			crash(d)
		}, expiry, expiry + atOnce, "expired", nil},
		"Bookmark": {func(d *duel) {
			crash(d)
			d.send(`{"type":"BOOKMARK","object":{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1000"}}}`, false)
		}, expiry, expiry + atOnce, "expired", nil},
		"SilentWatch": {func(d *duel) { d.mute(true); pass(20 * retryPeriod); d.leader.stop() }, 0, retryPeriod,
			"released", nil},
		"Deleted": {func(d *duel) { crash(d); d.remove("leases", lease.Name) }, leaseTime, leaseTime + atOnce,
			"there was no Lease", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDuel(t, func(o *Options) {
					if tc.options != nil {
						tc.options(o)
					}
				})
				tc.lose(d)
				d.expect(t, d.takesOver(t, 2*leaseTime), tc.least, tc.most, tc.reason)
			})
		})
	}
}

// The Pod of a holder is watched at once, even if the previous holder led only for a moment.
func TestTakeover_from_second_holder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.leader.vanish(d.api)
		for _, name := range []string{"third", "fourth"} {
			d.put(podOf(name))
			stored := d.lease()
			stored.Spec.HolderIdentity = ptr.To(name + "_uuid")
			annotate(stored, name+"_uuid", types.UID(name+"-uid"), clock.RealClock{}.Now().Add(-time.Minute))
			d.put(stored)
			pass(time.Millisecond)
		}
		d.put(terminated("fourth", clock.RealClock{}.Now()))
		d.expect(t, d.takesOver(t, leaseTime), 0, 20*time.Millisecond, "evidence: container manager of Pod fourth terminated")
	})
}

// A lock that waits again, after a stop or after it led, starts with new watches and an empty view.
func TestLockWaitsAgain(t *testing.T) {
	stopped := func(_ *testing.T, d *duel) (*Lock, *candidate) { d.standby.stop(); return d.standby.lock, d.leader }
	for name, tc := range map[string]struct {
		again func(*testing.T, *duel) (waits *Lock, leads *candidate)
		lose  func(*duel, *candidate)
	}{
		"Released": {stopped, func(_ *duel, leader *candidate) { leader.stop() }},
		"Evidence": {stopped, func(d *duel, leader *candidate) {
			leader.vanish(d.api)
			d.put(terminated(leader.name, clock.RealClock{}.Now()))
		}},
		"FormerLeader": {func(t *testing.T, d *duel) (*Lock, *candidate) {
			t.Helper()
			d.leader.stop()
			d.takesOver(t, time.Second)
			return d.leader.lock, d.standby
		}, func(_ *duel, leader *candidate) { leader.stop() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDuel(t)
				lock, leader := tc.again(t, d)
				done := make(chan error, 1)
				go func() {
					_, _, err := lock.Get(t.Context())
					done <- err
				}()
				pass(time.Millisecond)
				if len(done) != 0 {
					t.Error("it does not wait for the leader")
				}
				tc.lose(d, leader)
				pass(20 * time.Millisecond)
				if len(done) != 1 {
					t.Error("it does not detect at once that the leader has ended")
				}
				if err := <-done; err != nil {
					t.Errorf("Get() = %v, want none", err)
				}
				leader.stop()
			})
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// version returns a Lease as the API server would return it.
func version(number, holder string, renewed int) *coordinationv1.Lease {
	seconds := int32(leaseTime / time.Second)
	at := metav1.NewMicroTime(time.Date(2030, 1, 1, 0, 0, renewed, 0, time.UTC))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name, ResourceVersion: number, UID: types.UID("lease")},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &at,
			RenewTime: &at},
	}
}

func TestDecide(t *testing.T) {
	const other, me = "other_1", "me_2"
	type at = time.Duration
	seen := func(v *view, l *coordinationv1.Lease, now at) { v.observe(l, now); v.heard = now }
	take := func(reason string) decision { return decision{action: takeLease, reason: reason} }
	waitUntil := func(until at) decision { return decision{action: wait, until: until} }
	read := decision{action: readLive}
	for name, tc := range map[string]struct {
		live func(*view)
		now  at
		want decision
	}{
		"Unknown":           {func(*view) {}, 0, read},
		"UnknownWhileReads": {func(v *view) { v.mayRead = 5 }, 4, waitUntil(5)},
		"NoLease":           {func(v *view) { v.observe(nil, 0) }, 0, take("there was no Lease")},
		"Held":              {func(v *view) { seen(v, version("1", other, 1), 0) }, 1, waitUntil(2 * retryPeriod)},
		"Free":              {func(v *view) { seen(v, version("1", "", 1), 0) }, 0, take("released")},
		"OwnedUnknowingly":  {func(v *view) { seen(v, version("1", me, 1), 0) }, 0, take("an earlier write got no response")},
		"Silent":            {func(v *view) { seen(v, version("1", other, 1), 0) }, 2 * retryPeriod, read},
		"SilentWhileReads": {func(v *view) { seen(v, version("1", other, 1), 0); v.mayRead = 3 * retryPeriod },
			2 * retryPeriod, waitUntil(3 * retryPeriod)},
		"Broken":        {func(v *view) { seen(v, version("1", other, 1), 0); v.broken = true }, 1, read},
		"ExpiredUnread": {func(v *view) { seen(v, version("1", other, 1), 0) }, leaseTime, read},
		"ExpiredReadBefore": {func(v *view) { seen(v, version("1", other, 1), 0); v.readAt = leaseTime - 1 }, leaseTime,
			read},
		"ExpiredRead": {func(v *view) { seen(v, version("1", other, 1), 0); v.readAt = leaseTime }, leaseTime,
			take("expired")},
		"ExpiredReadFailed": {func(v *view) { seen(v, version("1", other, 1), 0); v.failed, v.mayRead = true, leaseTime+2 },
			leaseTime + 1, waitUntil(leaseTime + 2)},
		"Renewed": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			v.observeLive(version("2", other, 2), leaseTime, leaseTime)
			v.heard = leaseTime
		}, leaseTime, waitUntil(leaseTime + 2*retryPeriod)},
		"KnownVersionAgain": {func(v *view) {
			seen(v, version("2", other, 1), 0)
			seen(v, version("2", other, 1), leaseTime)
			v.readAt = leaseTime
		}, leaseTime, take("expired")},
		"OlderVersion": {func(v *view) {
			seen(v, version("10", other, 2), 0)
			seen(v, version("9", other, 1), leaseTime)
			v.readAt = leaseTime
		}, leaseTime, take("expired")},
		"OlderVersionThatIsFree": {func(v *view) { seen(v, version("10", other, 2), 0); seen(v, version("9", "", 1), 0) },
			1, waitUntil(2 * retryPeriod)},
		"VersionsThatAreNoNumbers": {func(v *view) {
			seen(v, version("a", other, 1), 0)
			seen(v, version("b", other, 2), leaseTime)
		}, leaseTime, waitUntil(leaseTime + 2*retryPeriod)},
		"LostRace": {func(v *view) { seen(v, version("1", "", 1), 0); v.failClaim(0, retryPeriod) },
			1, waitUntil(retryPeriod)},
		"LostRaceAndKnownVersionAgain": {func(v *view) {
			seen(v, version("1", "", 1), 0)
			v.failClaim(0, retryPeriod)
			seen(v, version("1", "", 1), 1)
		}, 1, waitUntil(retryPeriod)},
		"LostRaceAndKnownVersionAgainThatIsNoNumber": {func(v *view) {
			seen(v, version("a", "", 1), 0)
			v.failClaim(0, retryPeriod)
			seen(v, version("a", "", 1), 1)
		}, 1, waitUntil(retryPeriod)},
		"LostRaceAndNextChance": {func(v *view) {
			seen(v, version("1", "", 1), 0)
			v.failClaim(0, retryPeriod)
			seen(v, version("3", "", 1), 1)
		}, 1, take("released")},
		"LostRaceAndNothingSeen": {func(v *view) { seen(v, version("1", "", 1), 0); v.failClaim(0, retryPeriod) },
			retryPeriod, read},
		"LostRaceAndReadTheSame": {func(v *view) {
			seen(v, version("1", "", 1), 0)
			v.failClaim(0, retryPeriod)
			v.observeLive(version("1", "", 1), retryPeriod, retryPeriod)
		}, retryPeriod, take("released")},
		"Deleted": {func(v *view) { seen(v, version("1", other, 1), 0); seen(v, nil, leaseTime) }, 2*leaseTime - 1, read},
		"DeletedLongAgo": {func(v *view) { seen(v, version("1", other, 1), 0); seen(v, nil, leaseTime) }, 2 * leaseTime,
			take("there was no Lease")},
		"DeletedAgain": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			seen(v, nil, 1)
			seen(v, version("3", other, 2), leaseTime)
			seen(v, nil, leaseTime+1)
		}, leaseTime + 2, waitUntil(leaseTime + 1 + 2*retryPeriod)},
		"DeletedAfterRelease": {func(v *view) { seen(v, version("1", "", 1), 0); seen(v, nil, 1) }, 1,
			take("there was no Lease")},
		"OwnDeleted": {func(v *view) { seen(v, version("1", me, 1), 0); seen(v, nil, 1) }, 1, take("there was no Lease")},
		"DeletedReleasedAndDeleted": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			seen(v, nil, 1)
			seen(v, version("3", "", 1), 2)
			seen(v, nil, 3)
		}, 3, take("there was no Lease")},
		"MadeAnewUnchanged": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			anew := version("2", other, 1)
			anew.UID = "another"
			seen(v, anew, leaseTime)
		}, leaseTime, waitUntil(leaseTime + 2*retryPeriod)},
		"ExpiredReadBeganBefore": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			v.observeLive(version("1", other, 1), leaseTime-1, leaseTime)
		}, leaseTime, read},
		"ExpiredReadAfterAFailure": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			v.failed, v.mayRead = true, leaseTime+2
			v.observeLive(version("1", other, 1), leaseTime-1, leaseTime)
		}, leaseTime, read},
		"DeletedTwiceSeen": {func(v *view) {
			seen(v, version("1", other, 1), 0)
			seen(v, nil, 0)
			seen(v, nil, leaseTime)
		}, leaseTime, take("there was no Lease")},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{identity: me, evidence: true, container: "manager"}
			tc.live(v)
			if got := v.decide(tc.now, retryPeriod); got != tc.want {
				t.Errorf("decide() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// A Lease with a forged duration keeps standbys waiting for a bounded time, before and after its
// deletion. The near miss is the longest duration that is not bounded.
func TestForgedDurations(t *testing.T) {
	const other = "other_1"
	for seconds, want := range map[int32]time.Duration{
		math.MaxInt32: MaxLeaseDuration, 601: MaxLeaseDuration, 600: MaxLeaseDuration, 599: 599 * time.Second,
		0: 0, -1: 0, math.MinInt32: 0,
	} {
		for _, deleted := range []bool{false, true} {
			forged := version("1", other, 1)
			forged.Spec.LeaseDurationSeconds = &seconds
			v := &view{identity: "me_2"}
			v.observe(forged, 0)
			if deleted {
				v.observe(nil, 0)
			}
			v.heard, v.readAt = want, want
			if got := v.decide(want, retryPeriod); got.action != takeLease {
				t.Errorf("%d s, deleted %t: after %s %+v, want the Lease taken", seconds, deleted, want, got)
			}
			if got := v.decide(want-1, retryPeriod); want > 0 && got.action != wait {
				t.Errorf("%d s, deleted %t: just before %s %+v, want a wait", seconds, deleted, want, got)
			}
		}
	}
}

// Evidence counts from its first observation: only a read that begins after that confirms it.
func TestEvidenceNeedsLaterRead(t *testing.T) {
	v := &view{identity: "me_2", container: "manager", evidence: true}
	held := version("1", "first_1", 1)
	annotate(held, "first_1", "first-uid", held.Spec.AcquireTime.Time)
	v.observe(held, 0)
	v.pod = podOf("first")
	v.pod.Spec.Containers = []corev1.Container{{Name: "manager"}}
	v.pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		FinishedAt: metav1.NewTime(held.Spec.AcquireTime.Add(5 * time.Second)),
	}}
	v.readAt, v.heard = 9, 9
	for now := time.Duration(10); now < 12; now++ {
		v.judge(now)
		if got := v.decide(now, retryPeriod); got.action != readLive {
			t.Errorf("after %d ns: %+v, want a live read", now, got)
		}
	}
	v.readAt = 10
	if got := v.decide(12, retryPeriod); got.action != takeLease {
		t.Errorf("after that read: %+v, want the Lease taken", got)
	}
}

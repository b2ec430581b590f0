// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
)

// A standby logs each of these once: why it has no evidence, which watch is forbidden, and why
// it took the Lease or failed to.
func TestLog(t *testing.T) {
	forbid := func(what string) func(verb, resource string) error {
		return func(verb, resource string) error {
			if resource == what && (verb == "LIST" || verb == "WATCH") {
				return statusError(http.StatusForbidden)
			}
			return nil
		}
	}
	const took = `"level"=0 "msg"="took the Lease" "lock"="system/lease" "reason"=`
	for name, tc := range map[string]struct {
		change func(*Options)
		faults func(verb, resource string) error
		lose   func(*duel)
		want   []string
	}{
		"Nothing": {want: []string{took + `"released"`}},
		"WithoutEvidence": {change: func(o *Options) { o.Evidence = false }, want: []string{
			`"level"=0 "msg"="waiting until the Lease is released or expires: earlier takeovers are disabled"`,
			took + `"released"`}},
		"WithoutUID": {change: func(o *Options) { o.PodUID = "" }, want: []string{
			`"level"=0 "msg"="the Lease will not name this Pod because the UID of the Pod is unknown; set the environment variable POD_UID"`, took + `"released"`}},
		"PodsForbidden": {faults: forbid("pods"), want: []string{
			`"level"=0 "msg"="waiting until the Lease is released or expires because watching Pods is forbidden; grant this permission as in config/rbac" "error"="listing: Forbidden"`, took + `"released"`}},
		"LeasesForbidden": {faults: forbid("leases"), want: []string{
			`"level"=0 "msg"="reading the Lease once per retry period because watching the Lease is forbidden; grant this permission as in config/rbac" "error"="listing: Forbidden"`, took + `"released"`}},
		"LostRace": {
			change: func(o *Options) { o.Evidence = false },
			lose: func(d *duel) {
				d.leader.vanish(d.api)
				d.fail(func(verb, _ string) error {
					if verb == http.MethodPut {
						return statusError(http.StatusConflict)
					}
					return nil
				})
				pass(leaseTime)
				d.fail(nil)
			},
			want: []string{
				`"level"=0 "msg"="waiting until the Lease is released or expires: earlier takeovers are disabled"`,
				`"level"=0 "msg"="failed to acquire the Lease" "lock"="system/lease" "error"="writing lease system/lease: Conflict"`,
				took + `"expired"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newLeader(t)
				a := d.api
				a.fail(tc.faults)
				d.standby = join(t, a, "second", func(o *Options) {
					if tc.change != nil {
						tc.change(o)
					}
				})
				pass(forbiddenPause + 5*retryPeriod + retryPeriod/2) // a forbidden watch is tried again
				if tc.lose == nil {
					d.leader.stop()
				} else {
					tc.lose(d)
				}
				pass(2 * retryPeriod)
				d.end()
				const attempts, acquired = `"level"=0 "msg"="Attempting to acquire leader lease..." "lock"="system/lease"`,
					`"level"=0 "msg"="Successfully acquired lease" "lock"="system/lease"`
				want := append(append([]string{attempts}, tc.want...), acquired)
				if diff := cmp.Diff(want, d.standby.log()); diff != "" {
					t.Errorf("the log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A standby restarts a failed watch once a retry period, and a forbidden one once a minute.
func TestFailedWatchRestarts(t *testing.T) {
	for name, tc := range map[string]struct {
		resource string
		code     int
		lists    int           // in ten retry periods
		mended   time.Duration // the time after which the watch works again
	}{
		"Pods":            {"pods", http.StatusInternalServerError, 10, 2 * retryPeriod},
		"Leases":          {"leases", http.StatusInternalServerError, 10, 2 * retryPeriod},
		"PodsForbidden":   {"pods", http.StatusForbidden, 0, time.Minute},
		"LeasesForbidden": {"leases", http.StatusForbidden, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newLeader(t)
				a := d.api
				a.fail(func(verb, of string) error {
					if verb == "LIST" && of == tc.resource {
						return statusError(tc.code)
					}
					return nil
				})
				d.standby = join(t, a, "second")
				pass(retryPeriod / 2)
				a.take()
				pass(10 * retryPeriod)
				if n := count(a.take(), "LIST "+tc.resource+" second"); n != tc.lists {
					t.Errorf("%d lists in 10 retry periods, want %d", n, tc.lists)
				}
				a.fail(nil)
				pass(tc.mended)
				d.expectQuiet(t)
				d.leader.vanish(a)
				a.put(terminated("first", clock.RealClock{}.Now()))
				d.expect(t, d.takesOver(t, leaseTime), 0, 20*time.Millisecond,
					"evidence: container manager of Pod first terminated")
			})
		})
	}
}

// A failed watch of the Pod restarts in time although the watch of the Lease shows nothing.
func TestEvidenceAfterFailedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLeader(t)
		a := d.api
		pass(retryPeriod)
		a.fail(func(_, resource string) error {
			if resource == "pods" {
				return statusError(http.StatusInternalServerError)
			}
			return nil
		})
		d.standby = join(t, a, "second")
		pass(time.Millisecond)
		a.fail(nil)
		d.leader.vanish(a)
		a.put(terminated("first", clock.RealClock{}.Now()))
		d.expect(t, d.takesOver(t, leaseTime), retryPeriod-10*time.Millisecond, retryPeriod+10*time.Millisecond,
			"evidence: container manager of Pod first terminated")
	})
}

// A watch restarts after the timeout of its list.
func TestHangingWatchRestarts(t *testing.T) {
	for _, resource := range []string{"leases", "pods"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newLeader(t)
				a := d.api
				a.hang("LIST " + resource)
				d.standby = join(t, a, "second")
				pass(retryPeriod / 2)
				a.hang()
				pass(renewTime)
				d.expectQuiet(t)
				d.leader.vanish(a)
				a.put(terminated("first", clock.RealClock{}.Now()))
				d.expect(t, d.takesOver(t, leaseTime), 0, 20*time.Millisecond,
					"evidence: container manager of Pod first terminated")
			})
		})
	}
}

// A live read that shows a newer version than a silent watch restarts the watch.
func TestSilentWatchRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		d.deafen()
		pass(4 * retryPeriod)
		d.expectQuiet(t)
		d.end()
	})
}

// Sightings that are older than the last known version change nothing.
func TestOlderSightings(t *testing.T) {
	anew := version("5", "other_1", 1)
	anew.UID = "another"
	for name, tc := range map[string]struct {
		seen []sighting
		want *coordinationv1.Lease
	}{
		"Deleted": {[]sighting{{object: version("7", "other_1", 1), deleted: true}}, nil},
		"DeletedBeforeMadeAnew": {[]sighting{{object: anew, listed: true},
			{object: version("4", "other_1", 1), deleted: true}}, anew},
		"RenewedBeforeDeleted": {[]sighting{
			{object: version("7", "other_1", 1), deleted: true}, {object: version("6", "other_1", 2)}}, nil},
		"DeletedTwice": {[]sighting{
			{object: version("7", "other_1", 1), deleted: true}, {object: version("7", "other_1", 1), deleted: true}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lock, err := NewLock(newAPI(t).config("standby"), Options{
				Lease: lease, PodName: "standby", RenewDeadline: renewTime, RetryPeriod: retryPeriod, Clock: clock.RealClock{},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range append([]sighting{{object: version("1", "other_1", 1), listed: true}}, tc.seen...) {
				lock.standby.seeLease(t.Context(), s)
			}
			if got := lock.standby.view.lease; got != tc.want {
				t.Errorf("it takes the Lease for %+v, want %+v", got, tc.want)
			}
		})
	}
}

// eventLog is a recorder that stores each event with its object.
type eventLog []string

func (l *eventLog) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	about := regarding.(*coordinationv1.Lease)
	*l = append(*l, fmt.Sprintf("%s %s/%s %q: %s %s %s: ", about.GroupVersionKind(), about.Namespace, about.Name,
		about.UID, kind, reason, action)+
		fmt.Sprintf(note, args...))
}

// kubectl describe finds the events of an object by its UID.
func TestEventsAreAboutTheLease(t *testing.T) {
	lock, err := NewLock(newAPI(t).config("only"), Options{
		Lease: lease, PodName: "only", RenewDeadline: renewTime, RetryPeriod: retryPeriod, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	lock.RecordEvent("became leader") // without a recorder
	var events eventLog
	lock.RecordWith(&events)
	lock.RecordEvent("stopped leading")
	lock.stored, lock.reason = version("1", lock.Identity(), 1), "released"
	lock.stored.Namespace = lease.Namespace
	lock.RecordEvent("became leader")
	const about = `coordination.k8s.io/v1, Kind=Lease system/lease `
	want := eventLog{
		about + `"": Normal LeaderElection Elect: ` + lock.Identity() + " stopped leading",
		about + `"lease": Normal LeaderElection Elect: ` + lock.Identity() + " became leader: released",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A replica that leads watches nothing: it holds the Lease, and no Pod matters to it.
func TestLeaderWatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t)
		watches := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.watches)
		}
		if n := watches(); n != 2 {
			t.Errorf("a standby has %d watches, want those of the Lease and the Pod", n)
		}
		d.leader.stop()
		d.takesOver(t, leaseTime)
		if n := watches(); n != 0 {
			t.Errorf("%d watches of a leader", n)
		}
		d.standby.stop()
	})
}

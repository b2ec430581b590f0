// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
)

func failed(reason string) s3.Verdict { return s3.Verdict{Reason: reason, Message: "it failed"} }

var (
	good     = s3.Verdict{Reason: v1beta1.ReasonProbeSucceeded, Message: "fine"}
	bad      = failed(v1beta1.ReasonServerError)
	timedOut = failed(v1beta1.ReasonProbeTimeout)
	lacking  = failed(v1beta1.ReasonCredentialsNotFound)
	changed  = failed("of another spec")
)

// probed reports a probe at a time in the status; without a reason it succeeded.
func probed(at time.Time, reason string) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		b.Status.LastProbeTime, b.Status.ObservedGeneration = new(metav1.NewTime(at)), b.Generation
		if reason != "" {
			setReady(&b.Status, b.Generation, at, metav1.Condition{Status: metav1.ConditionFalse, Reason: reason})
		}
	}
}

func newSpec(b *v1beta1.StorageBucket) { b.Generation++ }

// requested requests a probe, after one that was handled; "" is no request.
func requested(earlier, value string) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		if earlier != "" {
			annotated(v1beta1.AnnotationRequestedAt, earlier)(b)
			b.Status = handled(b)
		}
		annotated(v1beta1.AnnotationRequestedAt, value)(b)
	}
}

func resumed(b *v1beta1.StorageBucket) {
	b.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionPaused, Status: metav1.ConditionTrue}}
}

// unknown reports that an error prevented the last probe.
func unknown(b *v1beta1.StorageBucket) {
	setReady(&b.Status, b.Generation, epoch, metav1.Condition{Status: metav1.ConditionUnknown})
}

// The status of a former leader, or this process's last probe, decides when a bucket is due. A
// period is followed by at most a tenth of it.
func TestDue(t *testing.T) {
	const day = 86400
	just, before := epoch.Add(-time.Second), epoch.Add(-10*time.Minute) // the status has whole seconds
	for name, tc := range map[string]struct {
		bucket   *v1beta1.StorageBucket
		known    probe // of this process; without a time, of the status
		from, to time.Duration
	}{
		"never probed":  {bucket: bucket("b")},
		"changed since": {bucket: bucket("b", probed(just, ""), newSpec)},
		"unknown since": {bucket: bucket("b", every(day), probed(just, ""), unknown)},
		"a former leader's": {bucket: bucket("b", every(3600), probed(before, "")),
			from: 3001 * time.Second, to: 3361 * time.Second},
		"overdue":      {bucket: bucket("b", probed(before, "")), to: time.Minute},
		"long overdue": {bucket: bucket("b", every(day), probed(epoch.Add(-100*time.Hour), "")), to: refresh},
		"an hour ago":  {bucket: bucket("b", probed(epoch.Add(-time.Hour), "")), to: time.Minute},
		"in an hour":   {bucket: bucket("b", probed(epoch.Add(time.Hour), "")), to: time.Minute},
		"in a year":    {bucket: bucket("b", probed(epoch.AddDate(1, 0, 0), "")), to: time.Minute},
		"in a period": {bucket: bucket("b", probed(epoch.Add(59*time.Second), "")),
			from: 2 * time.Minute, to: 126 * time.Second},
		"in a period and a second": {bucket: bucket("b", probed(epoch.Add(time.Minute), "")), to: time.Minute},
		"maybe probed since": {bucket: bucket("b", probed(epoch.Add(-refresh), "")),
			from: time.Minute, to: 126 * time.Second},
		"maybe probed since, a long period": {bucket: bucket("b", every(299), probed(epoch.Add(-400*time.Second), "")),
			from: 299 * time.Second, to: 330 * time.Second},
		"each probe is in the status": {bucket: bucket("b", every(300), probed(epoch.Add(-400*time.Second), "")),
			to: refresh},
		"a missing Secret": {bucket: bucket("b", every(day), probed(just, v1beta1.ReasonCredentialsNotFound)),
			from: firstRetry, to: 6 * time.Second},
		"a missing ConfigMap": {bucket: bucket("b", every(day), probed(just, v1beta1.ReasonTLSVerificationFailed)),
			from: firstRetry, to: 6 * time.Second},
		"a failing service": {bucket: bucket("b", every(day), probed(just, v1beta1.ReasonServerError)),
			from: 24 * time.Hour, to: 27 * time.Hour},
		"probed now": {bucket: bucket("b"), known: probe{ended: epoch, generation: 1},
			from: time.Minute, to: 66 * time.Second},
		"probed and changed": {bucket: bucket("b", newSpec), known: probe{ended: epoch, generation: 1}},
		"probed and resumed": {bucket: bucket("b", resumed), known: probe{ended: epoch, generation: 1}},
		"requested":          {bucket: bucket("b", requested("", "1")), known: probe{ended: epoch, generation: 1}},
		"requested again":    {bucket: bucket("b", requested("1", "2")), known: probe{ended: epoch, generation: 1}},
		"requested as before": {bucket: bucket("b", requested("1", "1")), known: probe{ended: epoch, generation: 1},
			from: time.Minute, to: 66 * time.Second},
		"requested at length, as before": {
			bucket: bucket("b", requested(strings.Repeat("é", 200), strings.Repeat("é", 200))),
			known:  probe{ended: epoch, generation: 1}, from: time.Minute, to: 66 * time.Second},
		"requested at length, then anew": {bucket: bucket("b", requested(strings.Repeat("é", 200), "é")),
			known: probe{ended: epoch, generation: 1}},
	} {
		s := tc.known
		if s.ended.IsZero() {
			s = (&probes{}).of(tc.bucket, epoch)
		}
		if after := max(0, s.due(tc.bucket).Sub(epoch)); after < tc.from || after > tc.to {
			t.Errorf("%s: due after %s, want %s to %s", name, after, tc.from, tc.to)
		}
	}
}

// No bucket is probed more often than its period, even when another replica begins to lead at any time: a leader
// that reports an unchanged result once in five minutes, and its successor, which knows the status only.
func TestNextLeaderKeepsThePeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bucket(rapid.StringMatching("[a-z]{8}").Draw(t, "name"), every(rapid.Int32Range(10, 900).Draw(t, "period")))
		now, last := epoch, time.Time{}
		for range rapid.IntRange(2, 5).Draw(t, "leaders") {
			var leader probes
			for range rapid.IntRange(0, 8).Draw(t, "probes") {
				p := leader.of(b, now)
				if due := p.due(b); due.After(now) {
					now = due.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "late")))
				}
				if gap := now.Sub(last); !last.IsZero() && gap < period(b) {
					t.Fatalf("probed %s after the last probe, with a period of %s", gap, period(b))
				}
				p = p.after(b.Generation, false, good, now)
				leader.store(b, p)
				status := summarized(b, p, "1", good, now)
				status.LastProbeTime = new(metav1.NewTime(now.Truncate(time.Second))) // as the API server stores it
				if needsWrite(b.Status, status) {
					b.Status = status
				}
				last = now
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "without a leader")))
		}
	})
}

func TestRestartSpreadsProbes(t *testing.T) {
	for period, window := range map[int32]time.Duration{60: time.Minute, 86400: refresh} {
		first := 0
		for i := range 1000 {
			b := bucket(fmt.Sprint(i), every(period), probed(epoch.Add(-100*time.Hour), ""))
			if (&probes{}).of(b, epoch).due(b).Before(epoch.Add(time.Second)) {
				first++
			}
		}
		if most := 3 * 1000 / int(window/time.Second); first > most {
			t.Errorf("period %d s: %d of 1000 in the first second, want at most %d", period, first, most)
		}
	}
}

func TestProbeStateIsOfOneUID(t *testing.T) {
	var l probes
	b, again := bucket("b"), bucket("b")
	again.UID = "another"
	l.store(b, l.of(b, epoch).after(1, false, good, epoch))
	if l.isDue(again, epoch.AddDate(1, 0, 0)) {
		t.Error("an object created again has the state of the first")
	}
	if due := l.of(again, epoch).due(again); !due.IsZero() {
		t.Errorf("an object created again is due at %s, want at once", due)
	}
}

func TestPauses(t *testing.T) {
	const s, m = time.Second, time.Minute
	for name, tc := range map[string]struct {
		period  int32
		results []s3.Verdict
		want    []time.Duration
	}{
		"timeouts, beyond the threshold of 3": {60,
			[]s3.Verdict{timedOut, timedOut, timedOut, timedOut, timedOut, timedOut, timedOut, timedOut},
			[]time.Duration{m, m, m, 2 * m, 4 * m, 8 * m, 10 * m, 10 * m}},
		"timeouts with a period longer than any pause": {3600, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, timedOut},
			[]time.Duration{60 * m, 60 * m, 60 * m, 60 * m, 60 * m}},
		"a success after timeouts": {60, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, good, timedOut},
			[]time.Duration{m, m, m, 2 * m, m, m}},
		"another failure after timeouts": {60, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, bad, timedOut},
			[]time.Duration{m, m, m, 2 * m, m, m}},
		"other failures": {60, []s3.Verdict{bad, bad, bad, bad, bad}, []time.Duration{m, m, m, m, m}},
		"no Secret": {60, []s3.Verdict{lacking, lacking, lacking, lacking, lacking, good},
			[]time.Duration{5 * s, 10 * s, 20 * s, 40 * s, m, m}},
		"a new spec after timeouts": {60, []s3.Verdict{timedOut, timedOut, timedOut, timedOut, changed, timedOut},
			[]time.Duration{m, m, m, 2 * m, 2 * m, m}},
		"a new spec without a Secret": {60, []s3.Verdict{lacking, lacking, changed, lacking},
			[]time.Duration{5 * s, 10 * s, 10 * s, 5 * s}},
		"a Secret that is deleted": {60, []s3.Verdict{good, lacking, good, lacking}, []time.Duration{m, 5 * s, m, 5 * s}},
	} {
		var state probe
		var got []time.Duration
		b := bucket("b", every(tc.period))
		for _, result := range tc.results {
			if result == changed {
				b.Generation++
			} else {
				state = state.after(b.Generation, result == lacking, result, epoch)
			}
			got = append(got, state.pause(b))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := (probe{lacking: math.MaxInt32}).pause(bucket("b", every(86400))); got != 5*s<<10 {
		t.Errorf("a pause of %s after very many probes without a Secret, want %s", got, 5*s<<10)
	}
}

// A bucket that the probe did not find, and that exists all the same, has its objects. No event denies that.
func TestExistingBucketIsNotReportedAsRecreated(t *testing.T) {
	late := withFailures(owned, requestCreate, "409 BucketAlreadyOwnedByYou")
	late.late = true
	w := newFixture(t, scenario{with: removable, service: late})
	r, events := readyOf(w.reconcile()), w.events()
	if r.Status != metav1.ConditionTrue || strings.Contains(events, v1beta1.EventBucketRecreated) {
		t.Errorf("Ready %s %s: %s; events %q", r.Status, r.Reason, r.Message, events)
	}
}

// A service that ignores tags in the creation, and is too busy for the next request, gets the tag all the same.
// Without it no later probe could claim the bucket.
func TestBusyServiceGetsTheTagOfANewBucket(t *testing.T) {
	for _, refused := range []string{requestTags, requestSetTag} {
		for _, answer := range []string{"503 SlowDown", "500 InternalError"} {
			t.Run(refused+" "+answer, func(t *testing.T) {
				w := newFixture(t, scenario{with: manage, service: withFailures(fakeService{tags: "ignores"})})
				created := false
				w.onRequest = func(r *http.Request) {
					clear(w.service.answers)
					if created && nameOf(r) == refused {
						created = false
						w.service.answers[refused] = answer
					}
					created = created || nameOf(r) == requestCreate
				}
				if r := readyOf(w.reconcile()); r.Status != metav1.ConditionTrue || created {
					t.Errorf("Ready %s %s: %s", r.Status, r.Reason, r.Message)
				}
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

var allReasons = []string{
	v1beta1.ReasonProbeSucceeded, v1beta1.ReasonBucketNotFound, v1beta1.ReasonAccessDenied,
	v1beta1.ReasonInvalidCredentials, v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonRegionMismatch,
	v1beta1.ReasonEndpointUnreachable, v1beta1.ReasonEndpointForbidden, v1beta1.ReasonTLSVerificationFailed,
	v1beta1.ReasonProbeTimeout, v1beta1.ReasonServerError, v1beta1.ReasonThrottled, v1beta1.ReasonBucketConflict,
	v1beta1.ReasonBucketNotEmpty, v1beta1.ReasonTagsNotSupported,
}

// Only a success makes a spec Ready, and only a success ends a reported failure. Below the threshold
// other failures change nothing. Events and writes are of changes.
func TestStatusProperties(t *testing.T) {
	befores := []metav1.Condition{{}, {Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending},
		{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonProbeSucceeded}}
	for _, reason := range allReasons[1:] {
		befores = append(befores, metav1.Condition{Status: metav1.ConditionFalse, Reason: reason})
	}
	for _, was := range befores {
		for _, isSameSpec := range []bool{true, false} {
			for failures := range int32(4) { // before the probe; the threshold is 3
				for _, found := range allReasons {
					checkStatus(t, was, isSameSpec, failures, found)
				}
			}
		}
	}
}

func checkStatus(t *testing.T, was metav1.Condition, isSameSpec bool, failures int32, found string) {
	t.Helper()
	name := fmt.Sprintf("%s (%s), same spec %t, %d failures, then %s", was.Status, was.Reason, isSameSpec, failures, found)
	b, probedSpec := bucket("b", newSpec), map[bool]int64{true: 2, false: 1}[isSameSpec]
	if was.Status != "" {
		b.Status.LastProbeTime, b.Status.ObservedSecretResourceVersion = new(metav1.NewTime(epoch)), "7"
		setReady(&b.Status, probedSpec, epoch, was)
	}
	v := s3.Verdict{Reason: found, Message: "message of " + found}
	isGood, now := v.OK(), epoch.Add(time.Minute)
	p := probe{generation: probedSpec, failures: failures}.after(2, false, v, now)
	definite := []string{v1beta1.ReasonBucketNotFound, v1beta1.ReasonCredentialsNotFound,
		v1beta1.ReasonEndpointForbidden, v1beta1.ReasonBucketConflict, v1beta1.ReasonTagsNotSupported}
	want := metav1.ConditionUnknown
	switch {
	case isGood:
		want = metav1.ConditionTrue
	case isSameSpec && failures+1 >= 3, was.Status == metav1.ConditionFalse, slices.Contains(definite, found):
		want = metav1.ConditionFalse
	case was.Status == metav1.ConditionTrue && isSameSpec:
		want = metav1.ConditionTrue
	}
	after := summarized(b, p, "7", v, now)
	is := reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
	isBad, event := is.Status == metav1.ConditionFalse, ""
	if was.Status != is.Status && is.Status != metav1.ConditionUnknown || isBad && was.Reason != is.Reason {
		event = map[bool]string{true: "Warning", false: "Normal"}[isBad]
	}
	events := ""
	for _, e := range transitions(b.Status, after) {
		events += e.Type
	}
	if is.Status != want || isBad && is.Reason != found || !isGood && !strings.Contains(is.Message, "message of "+found) ||
		is.ObservedGeneration != 2 || after.ObservedGeneration != 2 || events != event {
		t.Errorf("%s: Ready %+v with events %q, want %s with %q", name, is, events, want, event)
	}
	// Repeating a probe causes no event, and no write except the refresh.
	b.Status = after
	again := summarized(b, p, "7", v, now.Add(time.Minute))
	if needsWrite(after, again) || len(transitions(after, again)) > 0 {
		t.Errorf("%s: the same probe is written twice, or has an event", name)
	}
}

// A status is written twelve times an hour while nothing changes, and if its time is far in the
// future because a clock was wrong.
func TestStatusIsRefreshed(t *testing.T) {
	for _, result := range []s3.Verdict{good, failed(v1beta1.ReasonBucketNotFound)} {
		b, state, writes := bucket("b"), probe{}, 0
		for i := range 61 {
			now := epoch.Add(time.Duration(i) * time.Minute)
			state = state.after(b.Generation, false, result, now)
			if after := summarized(b, state, "", result, now); needsWrite(b.Status, after) {
				b.Status = after
				writes++
			}
		}
		if writes != 13 {
			t.Errorf("%s: %d writes in the hour after the first, want 12 and the first", result.Reason, writes)
		}
	}
	after := bucket("b", probed(epoch, "")).Status
	for age, want := range map[time.Duration]bool{
		0: false, refresh - time.Second: false, refresh: true, time.Hour: true, // the past
		time.Second - refresh: false, -refresh: true, -time.Hour: true,
	} {
		if got := needsWrite(bucket("b", probed(epoch.Add(-age), "")).Status, after); got != want {
			t.Errorf("a status that is %s old is written: %t, want %t", age, got, want)
		}
	}
}

// A pause changes nothing but its condition, which it sets once.
func TestPauseLeavesTheStatus(t *testing.T) {
	w := newFixture(t, scenario{with: both(probed(epoch, v1beta1.ReasonServerError), newSpec), service: exists})
	before := w.read().Status
	for range 2 {
		w.edit(annotated(v1beta1.AnnotationPaused, "true"))
		after := w.reconcile().Status
		if got := reporting.FindCondition(after.Conditions, v1beta1.ConditionPaused); got.Status != metav1.ConditionTrue ||
			!got.LastTransitionTime.Time.Equal(epoch) {
			t.Errorf("Paused %+v", got)
		}
		meta.RemoveStatusCondition(&after.Conditions, v1beta1.ConditionPaused)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the rest of the status (-before +paused):\n%s", diff)
		}
		w.clock.SetTime(epoch.Add(time.Hour))
	}
}

// A probe counts by the result of its reconcile: a bucket of another owner is no success.
func TestProbesAreCountedByTheResult(t *testing.T) {
	w := newFixture(t, scenario{with: manage, service: others})
	w.reconcile()
	conflicts := testutil.ToFloat64(w.metrics.probes.WithLabelValues(v1beta1.ReasonBucketConflict))
	if up := testutil.ToFloat64(w.metrics.up.WithLabelValues(bKey.Namespace, bKey.Name)); conflicts != 1 || up != 0 {
		t.Errorf("%v probes count as conflicts, up is %v, want 1 and 0", conflicts, up)
	}
}

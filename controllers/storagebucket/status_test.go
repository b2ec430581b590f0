package storagebucket

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// allReasons are the possible results of a probe.
var allReasons = []string{
	v1beta1.ReasonProbeSucceeded, v1beta1.ReasonBucketNotFound, v1beta1.ReasonAccessDenied,
	v1beta1.ReasonInvalidCredentials,
	v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonRegionMismatch, v1beta1.ReasonEndpointUnreachable,
	v1beta1.ReasonEndpointForbidden,
	v1beta1.ReasonTLSVerificationFailed, v1beta1.ReasonProbeTimeout, v1beta1.ReasonServerError, v1beta1.ReasonThrottled,
	v1beta1.ReasonBucketConflict, v1beta1.ReasonBucketNotEmpty, v1beta1.ReasonTagsNotSupported,
}

// definite are the failures that another probe would not refute.
var definite = []string{
	v1beta1.ReasonBucketNotFound, v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonEndpointForbidden,
	v1beta1.ReasonBucketConflict, v1beta1.ReasonTagsNotSupported,
}

// statusCase is one element of the cross product of the states of the Ready condition and the
// results of a probe.
type statusCase struct {
	before    metav1.Condition // without a type: no condition
	sameSpec  bool
	failures  int32 // consecutive, with this probe
	threshold int32
	found     string
}

func (c statusCase) String() string {
	return fmt.Sprintf("%s (%s), same spec %t, %d failures of %d, found %s",
		c.before.Status, c.before.Reason, c.sameSpec, c.failures, c.threshold, c.found)
}

// want returns the status of Ready. Only a success makes a spec Ready, and only a success ends a
// reported failure. Below the threshold other failures change nothing.
func (c statusCase) want() metav1.ConditionStatus {
	switch {
	case c.found == v1beta1.ReasonProbeSucceeded:
		return metav1.ConditionTrue
	case c.failures >= c.threshold, c.before.Status == metav1.ConditionFalse, slices.Contains(definite, c.found):
		return metav1.ConditionFalse
	case c.before.Status == metav1.ConditionTrue && c.sameSpec:
		return metav1.ConditionTrue
	}
	return metav1.ConditionUnknown
}

// statusCases returns the whole cross product: some 5,000 cases.
func statusCases() []statusCase {
	befores := []metav1.Condition{{}, {Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending},
		{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonProbeSucceeded}}
	for _, reason := range allReasons[1:] {
		befores = append(befores, metav1.Condition{Status: metav1.ConditionFalse, Reason: reason})
	}
	var all []statusCase
	for _, before := range befores {
		for _, sameSpec := range []bool{true, false} {
			for _, threshold := range []int32{1, 2, 3} {
				for _, failures := range []int32{1, 2, 3, 4} {
					for _, found := range allReasons {
						all = append(all, statusCase{before, sameSpec, failures, threshold, found})
					}
				}
			}
		}
	}
	return all
}

// probe returns the status before and after the probe of a case, and the types of the events.
func (c statusCase) probe() (before, after v1beta1.StorageBucketStatus, events []string) {
	b := bucket("b", func(b *v1beta1.StorageBucket) { b.Spec.Probe.FailureThreshold = c.threshold })
	b.Generation = 2
	if c.before.Status != "" {
		generation := int64(2)
		if !c.sameSpec {
			generation = 1
		}
		b.Status.ObservedGeneration = generation
		b.Status.LastProbeTime, b.Status.ObservedSecretResourceVersion = new(metav1.NewTime(epoch)), "7"
		setReady(&b.Status, generation, epoch, c.before)
	}
	now := epoch.Add(time.Minute)
	result := s3.Verdict{Reason: c.found, Message: "message of " + c.found}
	state := probe{ended: now, generation: 2, failures: c.failures}
	if result.OK() {
		state.failures, state.succeeded = 0, now
	}
	after = summarize(b, state, "7", findings{verdict: result}, now)
	for _, e := range transitions(b.Status, after) {
		events = append(events, e.Type)
	}
	return b.Status, after, events
}

func TestStatusProperties(t *testing.T) {
	for _, c := range statusCases() {
		before, after, events := c.probe()
		was, is := reporting.FindCondition(before.Conditions, v1beta1.ConditionReady),
			reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
		stalled := reporting.FindCondition(after.Conditions, v1beta1.ConditionStalled)
		succeeded, failed := c.found == v1beta1.ReasonProbeSucceeded, is.Status == metav1.ConditionFalse
		wantEvents := []string{}
		if was.Status != is.Status && is.Status != metav1.ConditionUnknown || failed && was.Reason != is.Reason {
			wantEvents = append(wantEvents, map[bool]string{true: "Warning", false: "Normal"}[failed])
		}
		switch {
		case is.ObservedGeneration != 2 || after.ObservedGeneration != 2:
			t.Errorf("%v: the status is of another generation", c)
		case is.Status != c.want() || failed && is.Reason != c.found:
			t.Errorf("%v: Ready=%s (%s), want %s", c, is.Status, is.Reason, c.want())
		case !succeeded && !strings.Contains(is.Message, "message of "+c.found):
			t.Errorf("%v: the message %q is not about what was found", c, is.Message)
		case (stalled.Status == metav1.ConditionTrue) != (failed && consequences[is.Reason].isStalled):
			t.Errorf("%v: Stalled=%s does not follow Ready", c, stalled.Status)
		case !slices.Equal(events, wantEvents):
			t.Errorf("%v: events %q, want %q", c, events, wantEvents)
		}
		// Repeating a probe causes no event, and no write except the refresh.
		again := c
		again.before, again.sameSpec = is, true
		if first, second, events := again.probe(); needsWrite(first, second) || len(events) > 0 {
			t.Errorf("%v: the same probe is written twice, or has the events %q", c, events)
		}
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
			if after := summarize(b, state, "", findings{verdict: result}, now); needsWrite(b.Status, after) {
				b.Status = after
				writes++
			}
		}
		if writes != 13 {
			t.Errorf("%s: %d writes in the hour after the first, want 12 and the first", result.Reason, writes)
		}
	}
	future := bucket("b", probed(epoch.Add(refresh), "")).Status
	if after := bucket("b", probed(epoch, "")).Status; !needsWrite(future, after) {
		t.Error("a time in the future is kept")
	}
}

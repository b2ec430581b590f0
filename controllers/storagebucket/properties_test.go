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
	v1beta1.ReasonBucketConflict, v1beta1.ReasonBucketNotEmpty,
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

// forEachStatusCase runs check for the whole cross product: some 7,000 cases.
func forEachStatusCase(t *testing.T, check func(c statusCase) string) {
	t.Helper()
	befores := []metav1.Condition{{}, {Status: metav1.ConditionUnknown, Reason: v1beta1.ReasonProbePending}}
	for _, reason := range allReasons {
		status := metav1.ConditionFalse
		if reason == v1beta1.ReasonProbeSucceeded {
			status = metav1.ConditionTrue
		}
		befores = append(befores, metav1.Condition{Status: status, Reason: reason})
	}
	cases := 0
	for _, before := range befores {
		for _, sameSpec := range []bool{true, false} {
			for _, threshold := range []int32{1, 2, 3} {
				for _, failures := range []int32{1, 2, 3, 4} {
					for _, found := range allReasons {
						c := statusCase{before: before, sameSpec: sameSpec, failures: failures, threshold: threshold, found: found}
						cases++
						if problem := check(c); problem != "" {
							t.Errorf("%v: %s", c, problem)
						}
					}
				}
			}
		}
	}
	if cases < 5000 {
		t.Errorf("only %d cases", cases)
	}
}

// probe returns the status before and after the probe of a case, and the reasons of the events.
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
	state := probeState{probed: now, generation: 2, failures: c.failures}
	if result.OK() {
		state.failures, state.succeeded = 0, now
	}
	after = summarize(b, state, observation{secretVersion: "7"}, action{}, result, now)
	for _, e := range transitions(b.Status, after) {
		events = append(events, e.Type+" "+e.Reason)
	}
	return b.Status, after, events
}

func TestStatusProperties(t *testing.T) {
	forEachStatusCase(t, func(c statusCase) string {
		before, after, events := c.probe()
		was, is := reporting.FindCondition(before.Conditions, v1beta1.ConditionReady),
			reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
		stalled := reporting.FindCondition(after.Conditions, v1beta1.ConditionStalled)
		succeeded := c.found == v1beta1.ReasonProbeSucceeded
		reached := c.failures >= c.threshold || slices.Contains(certain, c.found)
		switch {
		case is.ObservedGeneration != 2 || after.ObservedGeneration != 2:
			return "the status is of another generation"
		case succeeded && is.Status != metav1.ConditionTrue:
			return "a success is not Ready"
		case !succeeded && reached && (is.Status != metav1.ConditionFalse || is.Reason != c.found):
			return "the threshold is reached, and Ready is not False for that reason"
		case !succeeded && was.Status == metav1.ConditionFalse && is.Status != metav1.ConditionFalse:
			return "a known failure is forgotten without a success"
		case is.Status == metav1.ConditionTrue && !succeeded && (was.Status != metav1.ConditionTrue || !c.sameSpec):
			return "Ready without a success of this spec"
		case !succeeded && !strings.Contains(is.Message, "message of "+c.found):
			return "the message does not say what was found"
		case (stalled.Status == metav1.ConditionTrue) != (is.Status == metav1.ConditionFalse &&
			slices.Contains(stalling, is.Reason)):
			return "Stalled does not follow Ready"
		case after.LastProbeTime == nil || (after.LastSuccessTime != nil) != succeeded:
			return "the times are not those of the probe"
		}
		return checkEvents(was, is, events)
	})
}

// checkEvents returns an error unless there is one event if the status of Ready changes to True or
// False or the reason of False changes, and none otherwise.
func checkEvents(was, is metav1.Condition, events []string) string {
	news := was.Status != is.Status || is.Status == metav1.ConditionFalse && was.Reason != is.Reason
	switch {
	case !news || is.Status == metav1.ConditionUnknown:
		if len(events) != 0 {
			return fmt.Sprintf("events %q about nothing new", events)
		}
	case len(events) != 1:
		return fmt.Sprintf("events %q, want one", events)
	case strings.HasPrefix(events[0], "Normal ") != (is.Status == metav1.ConditionTrue):
		return fmt.Sprintf("event %q about Ready=%s", events[0], is.Status)
	}
	return ""
}

// Repeating a probe causes no event, and no write except the refresh.
func TestStatusIsStable(t *testing.T) {
	forEachStatusCase(t, func(c statusCase) string {
		_, after, _ := c.probe()
		is := reporting.FindCondition(after.Conditions, v1beta1.ConditionReady)
		again := c
		again.before, again.sameSpec, again.failures = is, true, c.failures+c.threshold
		first, second, _ := again.probe()
		if c.failures < c.threshold && is.Status != metav1.ConditionFalse {
			return "" // the threshold has been reached since, which causes an event
		}
		if needsWrite(first, second) {
			return "the same probe is written twice"
		}
		if _, _, events := again.probe(); len(events) != 0 {
			return fmt.Sprintf("events %q about the same probe", events)
		}
		return ""
	})
}

// After a reported failure, another failure is found below the threshold, as after a change of the
// leader. The reported failure stays, and its Warning is not repeated when it occurs again.
func TestReportedFailureIsKeptBelowThreshold(t *testing.T) {
	s := newStatusSequence()
	s.probe(failed(v1beta1.ReasonBucketNotFound))
	s.events = nil
	s.l = probeState{generation: 1}
	if got := s.probe(failed(v1beta1.ReasonProbeTimeout)); got.Status != metav1.ConditionFalse {
		t.Errorf("Ready=%s (%s) after one timeout, want False", got.Status, got.Reason)
	}
}

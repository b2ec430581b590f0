package storagebucket

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

func failed(reason string) s3.Verdict { return s3.Verdict{Reason: reason, Message: "it failed"} }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		found observation
		want  move
	}{
		"does not exist":                 {observation{verdict: failed(v1beta1.ReasonBucketNotFound)}, create},
		"owned":                          {observation{verdict: good, owner: ownerSelf}, keep},
		"owned by another StorageBucket": {observation{verdict: good, owner: ownerOther}, conflict},
		"without an owner tag":           {observation{verdict: good, owner: ownerNone}, conflict},
		"owner unknown":                  {observation{verdict: good}, conflict},
		"no access":                      {observation{verdict: failed(v1beta1.ReasonAccessDenied)}, wait},
		"no response":                    {observation{verdict: failed(v1beta1.ReasonProbeTimeout), owner: ownerSelf}, wait},
		"no credentials":                 {observation{verdict: failed(v1beta1.ReasonCredentialsNotFound)}, wait},
	} {
		if got := decide(tc.found); got != tc.want {
			t.Errorf("%s: move %d, want %d", name, got, tc.want)
		}
	}
}

// statusSequence applies the results of probes to the status of one bucket.
type statusSequence struct {
	b      *v1beta1.StorageBucket
	l      probeState
	now    time.Time
	writes int
	events []string
}

func (s *statusSequence) probe(result s3.Verdict) metav1.Condition {
	s.now = s.now.Add(time.Minute)
	s.l = s.l.after(observation{}, result, s.b.Generation, s.now)
	before := s.b.Status
	after := summarize(s.b, s.l, observation{secretVersion: "7"}, action{}, result, s.now)
	if needsWrite(before, after) {
		s.b.Status = after
		s.writes++
	}
	for _, n := range transitions(before, s.b.Status) {
		s.events = append(s.events, n.Type+" "+n.Reason)
	}
	return reporting.FindCondition(s.b.Status.Conditions, v1beta1.ConditionReady)
}

func (s *statusSequence) check(t *testing.T, when string, got metav1.Condition, status metav1.ConditionStatus,
	reason string, writes int, events ...string) {
	t.Helper()
	if got.Status != status || got.Reason != reason {
		t.Errorf("%s: Ready=%s (%s) %q, want %s (%s)", when, got.Status, got.Reason, got.Message, status, reason)
	}
	if s.writes != writes {
		t.Errorf("%s: %d writes, want %d", when, s.writes, writes)
	}
	if diff := cmp.Diff(events, s.events); diff != "" {
		t.Errorf("%s: events (-want +got):\n%s", when, diff)
	}
	s.writes, s.events = 0, nil
}

func newStatusSequence(with ...func(*v1beta1.StorageBucket)) *statusSequence {
	return &statusSequence{b: bucket("b", with...), now: epoch}
}

func TestThresholdDelaysChangeOfReady(t *testing.T) {
	s := newStatusSequence()
	s.check(t, "first", s.probe(good), "True", v1beta1.ReasonProbeSucceeded, 1, "Normal BucketHealthy")
	s.check(t, "again", s.probe(good), "True", v1beta1.ReasonProbeSucceeded, 0)
	one := s.probe(failed(v1beta1.ReasonEndpointUnreachable))
	s.check(t, "1 failure", one, "True", v1beta1.ReasonProbeSucceeded, 1)
	if !strings.HasPrefix(one.Message, "1 of 3 probes in a row failed: EndpointUnreachable") {
		t.Errorf("message %q", one.Message)
	}
	s.check(t, "2 failures", s.probe(failed(v1beta1.ReasonEndpointUnreachable)), "True", v1beta1.ReasonProbeSucceeded, 1)
	s.check(t, "3 failures", s.probe(failed(v1beta1.ReasonEndpointUnreachable)), "False",
		v1beta1.ReasonEndpointUnreachable, 1, "Warning BucketUnhealthy")
	s.check(t, "4 failures", s.probe(failed(v1beta1.ReasonEndpointUnreachable)), "False",
		v1beta1.ReasonEndpointUnreachable, 0)
	s.check(t, "another failure", s.probe(failed(v1beta1.ReasonServerError)), "False", v1beta1.ReasonServerError, 1,
		"Warning BucketUnhealthy")
	s.check(t, "1 success", s.probe(good), "True", v1beta1.ReasonProbeSucceeded, 1, "Normal BucketHealthy")
}

func TestDefiniteFailuresIgnoreThreshold(t *testing.T) {
	certainly := []string{v1beta1.ReasonBucketNotFound, v1beta1.ReasonCredentialsNotFound, v1beta1.ReasonEndpointForbidden,
		v1beta1.ReasonBucketConflict}
	for _, reason := range allReasons[1:] {
		s := newStatusSequence()
		s.probe(good)
		want := metav1.ConditionTrue
		if slices.Contains(certainly, reason) {
			want = metav1.ConditionFalse
		}
		if got := s.probe(failed(reason)); got.Status != want {
			t.Errorf("%s: Ready=%s (%s) after one failure, want %s", reason, got.Status, got.Reason, want)
		}
	}
}

func TestStalledIfUserMustAct(t *testing.T) {
	for reason, want := range map[string]bool{
		v1beta1.ReasonCredentialsNotFound: true, v1beta1.ReasonInvalidCredentials: true,
		v1beta1.ReasonEndpointForbidden: true,
		v1beta1.ReasonBucketConflict:    true, v1beta1.ReasonBucketNotFound: false, v1beta1.ReasonEndpointUnreachable: false,
		v1beta1.ReasonAccessDenied: false, v1beta1.ReasonProbeTimeout: false, v1beta1.ReasonThrottled: false,
	} {
		s := newStatusSequence(func(b *v1beta1.StorageBucket) { b.Spec.Probe.FailureThreshold = 1 })
		s.probe(failed(reason))
		stalled := reporting.FindCondition(s.b.Status.Conditions, v1beta1.ConditionStalled)
		if (stalled.Status == metav1.ConditionTrue) != want || (want && stalled.Reason != reason) {
			t.Errorf("%s: Stalled=%s (%s), want %t", reason, stalled.Status, stalled.Reason, want)
		}
		s.probe(good)
		if stalled := reporting.FindCondition(s.b.Status.Conditions, v1beta1.ConditionStalled); stalled.Type != "" {
			t.Errorf("%s: still Stalled after a success", reason)
		}
	}
}

func TestReadyIsUnknownBeforeFirstResult(t *testing.T) {
	s := newStatusSequence()
	s.check(t, "first failure", s.probe(failed(v1beta1.ReasonProbeTimeout)), "Unknown", v1beta1.ReasonProbePending, 1)
	s.probe(good)
	s.b.Generation++
	s.events, s.writes = nil, 0
	s.check(t, "a new spec that fails", s.probe(failed(v1beta1.ReasonProbeTimeout)), "Unknown",
		v1beta1.ReasonProbePending, 1)
	if s.b.Status.ObservedGeneration != 2 || s.b.Status.ConsecutiveFailures != 1 {
		t.Errorf("status %+v, want generation 2 and one failure", s.b.Status)
	}
}

func TestStatusIsRefreshed(t *testing.T) {
	s := newStatusSequence()
	for range 61 {
		s.probe(good)
	}
	if s.writes != 13 {
		t.Errorf("%d writes in the hour after the first, want 12 and the first", s.writes)
	}
	// A bucket that stays unhealthy causes no more writes than a healthy one.
	s.probe(failed(v1beta1.ReasonBucketNotFound))
	s.writes = 0
	for range 60 {
		s.probe(failed(v1beta1.ReasonBucketNotFound))
	}
	if s.writes != 12 {
		t.Errorf("%d writes in an hour without a bucket, want 12", s.writes)
	}
}

// lastProbeTime is the time of the last probe, and lastSuccessTime that of the last successful one.
// The next leader reads both from the status.
func TestProbeTimes(t *testing.T) {
	s := newStatusSequence()
	var succeeded time.Time
	for i, result := range []s3.Verdict{timedOut, good, bad, bad, timedOut,
		failed(v1beta1.ReasonBucketNotFound), good, bad} {
		if i == 4 {
			s.l = (&probeStates{}).of(s.b, s.now)
		}
		s.now = s.now.Add(refresh) // so that each status is written
		s.l = s.l.after(observation{}, result, s.b.Generation, s.now)
		s.b.Status = summarize(s.b, s.l, observation{}, action{}, result, s.now)
		if result.OK() {
			succeeded = s.now
		}
		probe, success := s.b.Status.LastProbeTime, s.b.Status.LastSuccessTime
		if probe == nil || !probe.Time.Equal(s.now) {
			t.Errorf("probe %d: lastProbeTime %v, want %s", i, probe, s.now)
		}
		if (success == nil) != succeeded.IsZero() || success != nil && !success.Time.Equal(succeeded) {
			t.Errorf("probe %d: lastSuccessTime %v, want %s", i, success, succeeded)
		}
	}
}

func TestCredentialRotationIsReported(t *testing.T) {
	s := newStatusSequence()
	s.probe(good)
	after := summarize(s.b, s.l, observation{secretVersion: "8"}, action{}, good, s.now)
	if !needsWrite(s.b.Status, after) || after.ObservedSecretResourceVersion != "8" {
		t.Error("the version of the Secret that was used is not written")
	}
	s.b.Status = after
	after = summarize(s.b, s.l, observation{}, action{}, noSecret, s.now)
	if !needsWrite(s.b.Status, after) || after.ObservedSecretResourceVersion != "" {
		t.Errorf("a deleted Secret was used at version %q", after.ObservedSecretResourceVersion)
	}
}

func TestEventsNameTheReason(t *testing.T) {
	for reason, want := range map[string]string{
		v1beta1.ReasonCredentialsNotFound: v1beta1.EventCredentialsRejected,
		v1beta1.ReasonInvalidCredentials:  v1beta1.EventCredentialsRejected,
		v1beta1.ReasonEndpointForbidden:   v1beta1.EventEndpointForbidden,
		v1beta1.ReasonBucketConflict:      v1beta1.EventBucketConflict,
		v1beta1.ReasonBucketNotEmpty:      v1beta1.EventBucketNotEmpty,
		v1beta1.ReasonServerError:         v1beta1.EventBucketUnhealthy,
	} {
		s := newStatusSequence(func(b *v1beta1.StorageBucket) { b.Spec.Probe.FailureThreshold = 1 })
		s.probe(failed(reason))
		if !slices.Equal(s.events, []string{"Warning " + want}) {
			t.Errorf("%s: events %q, want one Warning %s", reason, s.events, want)
		}
	}
}

// The progress of the creation stays in the status until an action changes it.
func TestProvisioningIsReported(t *testing.T) {
	b := &v1beta1.StorageBucket{Status: v1beta1.StorageBucketStatus{Provisioning: v1beta1.BucketIntended}}
	for acted, want := range map[v1beta1.BucketProvisioning]v1beta1.BucketProvisioning{
		"": v1beta1.BucketIntended, v1beta1.BucketCreated: v1beta1.BucketCreated,
	} {
		if got := summarize(b, probeState{}, observation{}, action{provisioning: acted}, s3.Succeeded(),
			time.Now()).Provisioning; got != want {
			t.Errorf("after an action with %q: %q, want %q", acted, got, want)
		}
	}
}

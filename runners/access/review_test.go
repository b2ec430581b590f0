package access

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var bind = Right{
	ResourceAttributes: authorizationv1.ResourceAttributes{
		Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Verb: "bind", Name: "view",
	},
	Remedy: "change the flag",
}

// authorizer responds to reviews like an API server.
type authorizer struct {
	client.Writer

	mu     sync.Mutex
	status authorizationv1.SubjectAccessReviewStatus
	err    error
	seen   []authorizationv1.ResourceAttributes
	at     []time.Duration // since the first
	began  time.Time
}

// answer sets the response to further reviews.
func (a *authorizer) answer(allowed bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Allowed, a.err = allowed, err
}

func (a *authorizer) reviews() []authorizationv1.ResourceAttributes {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

func (a *authorizer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	review := o.(*authorizationv1.SelfSubjectAccessReview)
	a.seen = append(a.seen, *review.Spec.ResourceAttributes)
	if len(a.at) == 0 {
		a.began = clock.RealClock{}.Now()
	}
	a.at = append(a.at, clock.RealClock{}.Since(a.began)/time.Second)
	review.Status = a.status
	return a.err
}

// running is a Review that was started in a synctest bubble.
type running struct {
	*Review
	log  *bytes.Buffer
	done chan error
	stop context.CancelFunc
}

func start(t *testing.T, a *authorizer) *running {
	t.Helper()
	r := &running{Review: New(a, bind, clock.RealClock{}), log: &bytes.Buffer{}, done: make(chan error, 1)}
	if err := r.Check(nil); err == nil || !strings.Contains(err.Error(), "has not been reviewed yet") {
		t.Errorf("before the start Check() = %v, want that no review was made yet", err)
	}
	ctx, stop := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, args string) {
		r.log.WriteString(args + "\n")
	}, funcr.Options{})))
	r.stop = stop
	go func() { r.done <- r.Start(ctx) }()
	synctest.Wait()
	return r
}

func TestReview(t *testing.T) {
	const remedy = `the operator may not bind clusterroles.rbac.authorization.k8s.io "view": change the flag`
	cases := map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		err    error
		want   string // of Check
		logged string
		ended  bool
	}{
		"granted": {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, ended: true},
		"granted by one of two authorizers": {
			status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "webhook authorizer is down"},
			ended:  true,
		},
		"missing": {want: remedy, logged: "not ready until the right is granted"},
		"denied": {status: authorizationv1.SubjectAccessReviewStatus{Denied: true}, want: remedy,
			logged: "not ready until"},
		"no reviews": {err: errors.New("forbidden"), logged: "reviewing a right of the operator failed, trying again"},
		"no verdict": {
			status: authorizationv1.SubjectAccessReviewStatus{EvaluationError: "webhook authorizer is down"},
			logged: "reviewing a right of the operator failed, trying again",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &authorizer{status: tc.status, err: tc.err}
				r := start(t, a)
				got := ""
				if err := r.Check(nil); err != nil {
					got = err.Error()
				}
				if got != tc.want {
					t.Errorf("Check() = %q, want %q", got, tc.want)
				}
				if seen := a.reviews()[0]; seen != bind.ResourceAttributes {
					t.Errorf("reviewed %v, want %v", seen, bind.ResourceAttributes)
				}
				<-time.After(10 * time.Minute)
				synctest.Wait()
				lines := strings.Count(r.log.String(), "\n")
				if tc.logged == "" && lines != 0 || tc.logged != "" &&
					(lines != 1 || !strings.Contains(r.log.String(), tc.logged)) {
					t.Errorf("after ten minutes the log is %q, want %q once", r.log, tc.logged)
				}
				if tc.logged != "" &&
					!strings.Contains(r.log.String(), `"right"="bind clusterroles.rbac.authorization.k8s.io \"view\""`) {
					t.Errorf("the log does not name the right: %s", r.log)
				}
				want := []time.Duration{0}
				if !tc.ended {
					want = []time.Duration{0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181, 211, 241, 271, 301, 331, 361, 391, 421, 451, 481,
						511, 541, 571}
				}
				if diff := cmp.Diff(want, a.at); diff != "" {
					t.Errorf("seconds from the first review to each (-want +got):\n%s", diff)
				}
				r.stop()
				if err := <-r.done; err != nil {
					t.Errorf("Start() = %v, want nil", err)
				}
			})
		})
	}
}

// The replica becomes ready without a restart, and stays so without further reviews.
func TestReview_right_granted_later(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authorizer{}
		r := start(t, a)
		<-time.After(5 * time.Minute)
		a.answer(false, errors.New("timeout"))
		<-time.After(lastPause)
		synctest.Wait()
		if r.Check(nil) == nil {
			t.Error("a review that fails took the place of the answer before: Check() = nil")
		}
		a.answer(true, nil)
		<-time.After(lastPause)
		synctest.Wait()
		if err := r.Check(nil); err != nil {
			t.Errorf("%s after the right was granted Check() = %v, want nil", lastPause, err)
		}
		if err := <-r.done; err != nil {
			t.Errorf("Start() = %v, want nil", err)
		}
		reviews := len(a.reviews())
		<-time.After(time.Hour)
		if more := len(a.reviews()) - reviews; more != 0 {
			t.Errorf("%d reviews after the right was granted, want none", more)
		}
		logged := []string{}
		for line := range strings.Lines(r.log.String()) {
			_, message, _ := strings.Cut(line, `"msg"="`)
			message, _, _ = strings.Cut(message, `"`)
			logged = append(logged, message)
		}
		want := []string{"not ready until the right is granted", "reviewing a right of the operator failed, trying again",
			"the right is granted"}
		if diff := cmp.Diff(want, logged); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
		r.stop()
	})
}

func TestReviewRunsOnEveryReplica(t *testing.T) {
	if New(&authorizer{}, bind, clock.RealClock{}).NeedLeaderElection() {
		t.Error("NeedLeaderElection() = true, want false")
	}
}

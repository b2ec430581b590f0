// Package access reviews a right that an administrator grants beside the shipped ones,
// and reports a missing one in the log and through /readyz.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The pause between two reviews doubles from firstPause to lastPause, so that a right that
// is never granted costs two requests a minute, and one that is granted is seen soon.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

var (
	_ manager.Runnable               = (*Review)(nil)
	_ manager.LeaderElectionRunnable = (*Review)(nil)
	_ healthz.Checker                = (*Review)(nil).Check
)

// Right is what is reviewed, and what an administrator changes where it is missing.
type Right struct {
	authorizationv1.ResourceAttributes
	Remedy string
}

// String names the right as kubectl auth can-i takes it.
func (r Right) String() string {
	return fmt.Sprintf("%s %s %q", r.Verb, schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Name)
}

// Review creates a SelfSubjectAccessReview at the start, and again until the right is
// granted. It makes none after that: a right that is revoked later is reported by the
// object whose write was refused, and takes no replica off the webhook Service.
type Review struct {
	writer client.Writer
	right  Right
	clock  clock.Clock

	mu      sync.Mutex
	problem error // nil once the right is granted, or where no review can be made
}

// New returns a Review that is not ready until its first answer.
func New(writer client.Writer, right Right, c clock.Clock) *Review {
	return &Review{
		writer: writer, right: right, clock: c,
		problem: fmt.Errorf("whether the operator may %s has not been reviewed yet", right),
	}
}

// NeedLeaderElection reports false: a standby without the right must not become ready either.
func (r *Review) NeedLeaderElection() bool { return false }

// Check is the healthz.Checker. Its error names the right and the remedy.
func (r *Review) Check(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// Start reviews until the right is granted or ctx is done. Each change of the answer is
// logged once. A review that fails is no answer: the one before stays. Without one readiness
// passes, because an API server that refuses reviews would keep a healthy replica from ever
// becoming ready.
func (r *Review) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("access").WithValues("right", r.right.String())
	logged := ""
	var problem error
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		allowed, err := r.review(ctx)
		switch {
		case ctx.Err() != nil:
			continue // what a stop has cut short is no answer
		case err != nil:
			if logged != err.Error() {
				logger.Error(err, "reviewing a right of the operator failed, trying again")
			}
			logged = err.Error()
		case !allowed:
			problem = fmt.Errorf("the operator may not %s: %s", r.right, r.right.Remedy)
			if logged != problem.Error() {
				logger.Error(problem, "not ready until the right is granted")
			}
			logged = problem.Error()
		default:
			problem = nil
			if logged != "" {
				logger.Info("the right is granted")
			}
		}
		r.mu.Lock()
		r.problem = problem
		r.mu.Unlock()
		if allowed {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-r.clock.After(pause):
		}
	}
	return nil
}

func (r *Review) review(ctx context.Context) (allowed bool, err error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r.right.ResourceAttributes},
	}
	if err := r.writer.Create(ctx, review); err != nil {
		return false, fmt.Errorf("reviewing the right: %w", err)
	}
	if !review.Status.Allowed && review.Status.EvaluationError != "" {
		return false, errors.New("reviewing the right: " + review.Status.EvaluationError)
	}
	return review.Status.Allowed, nil
}

// Package access reviews a right that an administrator grants in addition to the shipped ones. It
// reports a missing right in the log and by /readyz.
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

// The pause between two reviews doubles from firstPause to lastPause. A right that is never granted
// costs two requests a minute, and a granted one is detected soon.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

var (
	_ manager.Runnable               = (*Review)(nil)
	_ manager.LeaderElectionRunnable = (*Review)(nil)
	_ healthz.Checker                = (*Review)(nil).Check
)

// Right is the reviewed right, and the remedy for an administrator if it is missing.
type Right struct {
	authorizationv1.ResourceAttributes
	Remedy string
}

// String returns the right in the notation of kubectl auth can-i.
func (r Right) String() string {
	return fmt.Sprintf("%s %s %q", r.Verb, schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Name)
}

// Review creates SelfSubjectAccessReviews from its start until the right is granted. It creates
// none after that: a right that is revoked later is reported in the status of the object whose
// write is denied, and takes no replica off the webhooks' Service.
type Review struct {
	writer client.Writer
	right  Right
	clock  clock.Clock

	mu      sync.Mutex
	problem error // nil once the right is granted, or if reviews fail
}

// New returns a Review that is not ready until its first response.
func New(writer client.Writer, right Right, c clock.Clock) *Review {
	return &Review{
		writer: writer, right: right, clock: c,
		problem: fmt.Errorf("whether the operator may %s has not been reviewed yet", right),
	}
}

// NeedLeaderElection returns false: a standby without the right must not become ready either.
func (r *Review) NeedLeaderElection() bool { return false }

// Check is a healthz.Checker. Its error names the right and the remedy.
func (r *Review) Check(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// Start reviews until the right is granted or ctx is done. It logs each change of the result once.
// A failed review does not change the result. If there is no result yet, Check passes: an API
// server that rejects reviews must not keep a healthy replica from becoming ready.
func (r *Review) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("access").WithValues("right", r.right.String())
	logged := ""
	var problem error
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		allowed, err := r.review(ctx)
		switch {
		case ctx.Err() != nil:
			continue // an interrupted review has no result
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

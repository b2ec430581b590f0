// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// accessTimeout bounds the wait for the expected answer to an access review, unless the scenario
// has a timeout.
const accessTimeout = 10 * time.Second

func (p *Prover) impersonateUser(u scenario.User) (client.Client, error) {
	config := p.plane.Config()
	config.WarningHandler = rest.NoWarnings{}
	config.Impersonate = rest.ImpersonationConfig{UserName: u.Name, Groups: groupsOf(u)}
	return client.New(config, client.Options{})
}

// groupsOf returns a user's groups, including the one of all authenticated users.
func groupsOf(u scenario.User) []string {
	return append(slices.Clone(u.Groups), "system:authenticated")
}

// clientOf returns the client of a step's user. It binds the user's role at first use.
func (ex *execution) clientOf(ctx context.Context, step scenario.Step) (client.Client, error) {
	if step.As == "" {
		return ex.prover.client, nil
	}
	if c, known := ex.clients[step.As]; known {
		return c, nil
	}
	u, known := ex.scenario.User(step.As)
	if !known {
		return nil, fmt.Errorf("looking for user %s: the scenario has none", step.As)
	}
	if u.Role != "" {
		if err := ex.bind(ctx, u); err != nil {
			return nil, fmt.Errorf("binding user %s: %w", u.Name, err)
		}
	}
	c, err := ex.prover.impersonate(u)
	if err != nil {
		return nil, fmt.Errorf("impersonating user %s: %w", u.Name, err)
	}
	if ex.clients == nil {
		ex.clients = map[string]client.Client{}
	}
	ex.clients[u.Name] = c
	return c, nil
}

// bind binds a user's role and waits until the authorizer allows it.
func (ex *execution) bind(ctx context.Context, u scenario.User) error {
	binding := map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "RoleBinding",
		"metadata": map[string]any{"namespace": u.Namespace, "name": "scenario:" + u.Role + ":" + u.Name},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": u.Role},
		"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": u.Name}},
	}
	if err := ex.perform(ctx, scenario.Step{Apply: binding}); err != nil { // as an administrator
		return err
	}
	// All of Kubernetes' user-facing roles allow this.
	reads := scenario.Access{User: u.Name, Groups: u.Groups, Verb: "get", Resource: "configmaps", Namespace: u.Namespace,
		Allowed: true}
	allowed, err := ex.review(ctx, reads)
	if err == nil && !allowed {
		err = fmt.Errorf("the authorizer does not allow that %s", reads)
	}
	return err
}

// review returns whether an access is allowed. It waits a while for the expected answer.
func (ex *execution) review(ctx context.Context, a scenario.Access) (allowed bool, err error) {
	resource := schema.ParseGroupResource(a.Resource)
	limited, cancel := context.WithTimeout(ctx, cmp.Or(a.Within.Duration, accessTimeout))
	defer cancel()
	err = wait.PollUntilContextCancel(limited, pollInterval, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: a.User, Groups: groupsOf(scenario.User{Groups: a.Groups}),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.Verb, Group: resource.Group, Resource: resource.Resource, Namespace: a.Namespace, Name: a.Name,
			},
		}}
		if err := ex.prover.client.Create(ctx, review); err != nil {
			return false, err
		}
		allowed = review.Status.Allowed
		return allowed == a.Allowed, nil
	})
	if err != nil && (ctx.Err() != nil || limited.Err() == nil) {
		return allowed, fmt.Errorf("reviewing whether %s: %w", a, err)
	}
	return allowed, nil
}

// checkAccess reviews an access that a step expects, and records the answer.
func (ex *execution) checkAccess(ctx context.Context, step scenario.Step) error {
	allowed, err := ex.review(ctx, *step.May)
	if err != nil {
		return err
	}
	ex.decide(step, step.May.String(), step.May.Allowed, allowed)
	return nil
}

// decide records an answer of the API server that a step expects.
func (ex *execution) decide(step scenario.Step, action string, want, allowed bool) {
	ex.decisions = append(ex.decisions,
		history.Decision{Step: step.Name, Action: action, Want: want, Allowed: allowed, At: ex.prover.clock.Now()})
}

// isRefusal reports whether the API server finally refused a request. A webhook may deny it with any code, and an apply
// with a field that the schema lacks is answered with 500.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		isAnswer(err) && finally.MatchString(err.Error())
}

var finally = regexp.MustCompile(`admission webhook .* denied the request|failed to create typed patch object`)

// isAnswer reports whether an error is an answer of the API server, and not the harness's own.
func isAnswer(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer)
}

func (ex *execution) reject(step, object string, err error) {
	ex.rejections = append(ex.rejections,
		history.Rejection{Step: step, Object: object, Message: err.Error(), At: ex.prover.clock.Now()})
}

// RefusedError means that the API server refused a step, and that the run ended there.
type RefusedError struct{ history.Rejection }

func (e *RefusedError) Error() string { return e.String() }

// recordOutcome records whether a step that must be refused was, and a rejection that the scenario
// does not expect. An error is the harness's own.
func (ex *execution) recordOutcome(name string, step scenario.Step, err error) error {
	object := step.Changed().String()
	switch {
	case err != nil && (step.Refused == "" || !isRefusal(err)):
		if !isAnswer(err) {
			return err
		}
		ex.reject(name, object, err)
		if ex.prover.stopAtRefusal {
			message := (&history.History{Aliases: ex.aliases()}).Normalizer().Replace(err.Error())
			return &RefusedError{history.Rejection{Step: name, Object: object, Message: message}}
		}
	case err != nil && step.Refused == scenario.MayRefuse:
		ex.reject(name, object, err)
		ex.rejections[len(ex.rejections)-1].Allowed = true
	case step.Refused == scenario.MustRefuse:
		action := fmt.Sprintf("%s may %s %s", cmp.Or(step.As, "an administrator"), step.Actions()[0], object)
		ex.decide(step, action, false, err == nil)
	}
	return nil
}

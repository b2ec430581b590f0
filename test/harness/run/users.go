package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// answerWithin is how long an answer about access may take to become the expected
// one, where the scenario does not say.
const answerWithin = 10 * time.Second

// userClients are the users that a scenario's steps act as.
type userClients struct {
	known   []scenario.User
	clients map[string]client.Client
}

// impersonateUser returns a client that acts as a user.
func (p *Prover) impersonateUser(u scenario.User) (client.Client, error) {
	config := p.plane.Config()
	config.WarningHandler = rest.NoWarnings{}
	config.Impersonate = rest.ImpersonationConfig{UserName: u.Name, Groups: groupsOf(u)}
	return client.New(config, client.Options{})
}

// groupsOf are the groups of a user, with the one that each authenticated user has.
func groupsOf(u scenario.User) []string {
	return append(slices.Clone(u.Groups), "system:authenticated")
}

// clientOf is the client of the user who acts in a step. A role is bound before the
// first one.
func (t *trial) clientOf(ctx context.Context, step scenario.Step) (client.Client, error) {
	if step.As == "" {
		return t.prover.client, nil
	}
	if c, known := t.users.clients[step.As]; known {
		return c, nil
	}
	i := slices.IndexFunc(t.users.known, func(u scenario.User) bool { return u.Name == step.As })
	if i < 0 {
		return nil, fmt.Errorf("looking for user %s: the scenario has none", step.As)
	}
	u := t.users.known[i]
	if u.Role != "" {
		if err := t.bind(ctx, u); err != nil {
			return nil, fmt.Errorf("binding user %s: %w", u.Name, err)
		}
	}
	c, err := t.prover.impersonate(u)
	if err != nil {
		return nil, fmt.Errorf("impersonating user %s: %w", u.Name, err)
	}
	if t.users.clients == nil {
		t.users.clients = map[string]client.Client{}
	}
	t.users.clients[u.Name] = c
	return c, nil
}

// bind gives a user its role, and waits until the authorizer knows.
func (t *trial) bind(ctx context.Context, u scenario.User) error {
	binding := map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "RoleBinding",
		"metadata": map[string]any{"namespace": u.Namespace, "name": "scenario:" + u.Role + ":" + u.Name},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": u.Role},
		"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": u.Name}},
	}
	if err := t.act(ctx, scenario.Step{Apply: binding}); err != nil { // as an administrator
		return err
	}
	// Each of Kubernetes' own roles for users of a namespace allows this.
	reads := scenario.Access{User: u.Name, Groups: u.Groups, Verb: "get", Resource: "configmaps", Namespace: u.Namespace, Allowed: true}
	allowed, err := t.review(ctx, reads)
	if err == nil && !allowed {
		err = fmt.Errorf("the authorizer does not allow that %s", reads)
	}
	return err
}

// review returns whether an access is allowed, as soon as that is what is expected, or
// else in the end.
func (t *trial) review(ctx context.Context, a scenario.Access) (allowed bool, err error) {
	resource := schema.ParseGroupResource(a.Resource)
	limited, cancel := context.WithTimeout(ctx, cmp.Or(a.Within.Duration, answerWithin))
	defer cancel()
	err = wait.PollUntilContextCancel(limited, poll, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: a.User, Groups: groupsOf(scenario.User{Groups: a.Groups}),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.Verb, Group: resource.Group, Resource: resource.Resource, Namespace: a.Namespace, Name: a.Name,
			},
		}}
		if err := t.prover.client.Create(ctx, review); err != nil {
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

// expects reviews an access that a step expects, and notes the answer. The
// expectation stands until a step acts.
func (t *trial) expects(ctx context.Context, step scenario.Step) error {
	t.standing = append(t.standing, step)
	return t.decide(ctx, step, "")
}

// decide notes the answer to what a step expects, during a fault or none.
func (t *trial) decide(ctx context.Context, step scenario.Step, during string) error {
	allowed, err := t.review(ctx, *step.May)
	if err != nil {
		return err
	}
	t.decisions = append(t.decisions, history.Decision{
		Step: step.Name, During: during, Action: step.May.String(), Want: step.May.Allowed, Allowed: allowed, At: t.prover.clock.Now(),
	})
	return nil
}

// confirm reviews again, during a fault, all accesses that are still expected.
func (t *trial) confirm(ctx context.Context, during string) error {
	var errs []error
	for _, step := range t.standing {
		errs = append(errs, t.decide(ctx, step, during))
	}
	return errors.Join(errs...)
}

// refused reports whether the API server has refused a request for good.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}

// outcome notes whether a step was refused that has to be. A refusal that the scenario
// allows is no error.
func (t *trial) outcome(step scenario.Step, err error) error {
	if step.Refused == "" || err != nil && !refused(err) {
		return err
	}
	if step.Refused == scenario.MustRefuse {
		t.decisions = append(t.decisions, history.Decision{
			Step: step.Name, Action: actionOf(step), Allowed: err == nil, At: t.prover.clock.Now(),
		})
	}
	return nil
}

// actionOf is what a step does, and as whom.
func actionOf(step scenario.Step) string {
	who := cmp.Or(step.As, "an administrator")
	switch {
	case step.Patch != nil:
		return fmt.Sprintf("%s may patch %s", who, step.Patch.Object)
	case step.Delete != nil:
		return fmt.Sprintf("%s may delete %s", who, step.Delete)
	}
	return fmt.Sprintf("%s may apply %s", who, refOf(&unstructured.Unstructured{Object: step.Apply}))
}

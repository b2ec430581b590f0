// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/internal/process"
)

const (
	// leaseTimeout bounds the wait for the operator's Lease, and refusedTimeout that for one that it may
	// not create beside its Deployment: it may be elected elsewhere.
	leaseTimeout   = time.Minute
	refusedTimeout = 15 * time.Second
	leaseInterval  = 200 * time.Millisecond
)

// findLease runs one replica on a control plane of its own until it holds a Lease.
func (l *learner) findLease(ctx context.Context) (err error) {
	s, err := l.load(ctx, l.draft.Observing)
	if err != nil {
		return err
	}
	lasting := context.WithoutCancel(ctx)
	plane, err := env.Start(lasting, s.Plane)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	installation, err := plane.Install(lasting, s.Operator)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, noteNotEnded(l.output, installation.Stop(lasting))) }()
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	before, err := leases(ctx, c)
	if err != nil {
		return err
	}
	replica, err := installation.Start(ctx)
	if err != nil {
		return err
	}
	own := &programLog{path: replica.LogPath()}
	timeout, advice := electionAdvice(ctx, c, installation.Shipped())
	if l.draft.Leases, err = waitForLease(ctx, c, before, timeout, l.restarting(replica, own)); err != nil {
		if errors.Is(err, errProgramEnded) {
			return fmt.Errorf("%w; the log of the operator shows why; set what the operator needs with --args, "+
				"--env or --values", err)
		}
		return fmt.Errorf("%w; %s. The end of its log:\n%s", err, advice, own.next())
	}
	l.draft.Lease = l.draft.Leases[0]
	namespace := installation.Shipped().Namespace
	if i := slices.IndexFunc(l.draft.Leases, func(k history.Key) bool { return k.Namespace == namespace }); i >= 0 {
		l.draft.Lease = l.draft.Leases[i]
	}
	l.resources, err = watchable(plane)
	return err
}

// noteNotEnded prints that the program did not end at SIGTERM, which is a finding and keeps nothing
// from being learned, and returns the other errors of a stop.
func noteNotEnded(output io.Writer, err error) error {
	notEnded, others := process.SplitNotEnded(err)
	if notEnded != nil {
		fmt.Fprintf(output, "finding: %v\n", notEnded)
	}
	return others
}

// maxRestarts bounds how often a program that ends is started again while its Lease is awaited.
const maxRestarts = 5

// errProgramEnded means that a program ended each time that it was started.
var errProgramEnded = errors.New("the program ended")

// restarting returns a function that starts a program again if it has ended, as a kubelet does, and
// reports whether it runs then. A program may end until a Secret or a webhook is there.
func (l *learner) restarting(replica restartable, own *programLog) func() bool {
	restarts := 0
	return func() bool {
		if replica.Running() {
			return true
		}
		fmt.Fprintf(l.output, "the program ended. The end of its log:\n%s\n", own.next())
		if restarts == maxRestarts {
			return false
		}
		restarts++
		fmt.Fprintf(l.output, "restarting the program, attempt %d of %d\n", restarts, maxRestarts)
		return replica.Restart() == nil
	}
}

// restartable is a replica.
type restartable interface {
	Running() bool
	Restart() error
}

// waitForLease returns the Leases that the operator has taken while it ran.
func waitForLease(ctx context.Context, c client.Client, before []history.Key, timeout time.Duration,
	running func() bool) (taken []history.Key, err error) {
	err = wait.PollUntilContextTimeout(ctx, leaseInterval, timeout, true, func(ctx context.Context) (bool, error) {
		now, err := leases(ctx, c)
		taken = slices.DeleteFunc(now, func(k history.Key) bool { return slices.Contains(before, k) })
		if err == nil && len(taken) == 0 && !running() {
			return false, errProgramEnded
		}
		return len(taken) > 0, err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("waiting for a Lease of the operator: the operator acquired no Lease "+
			"within %s", timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for a Lease of the operator: %w", err)
	}
	return taken, nil
}

// electionAdvice returns how long to wait for a Lease of the operator, and what to do if it takes none.
func electionAdvice(ctx context.Context, c client.Client, shipped *appsv1.Deployment) (time.Duration, string) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   serviceaccount.MakeUsername(shipped.Namespace, shipped.Spec.Template.Spec.ServiceAccountName),
		Groups: append(serviceaccount.MakeGroupNames(shipped.Namespace), user.AllAuthenticated),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: history.Leases.Group, Resource: history.Leases.Resource, Namespace: shipped.Namespace,
		},
	}}
	if err := c.Create(ctx, review); err == nil && !review.Status.Allowed {
		return refusedTimeout, fmt.Sprintf("its ServiceAccount is not allowed to create Leases in namespace %s; add "+
			"a Role and a RoleBinding to the manifests, or set another namespace for the leader election. The "+
			"prover cannot test an operator without leader election", shipped.Namespace)
	}
	return leaseTimeout, "the operator must use leader election; check whether it needs a flag for that, and " +
		"whether it reads its namespace from a flag or from POD_NAMESPACE"
}

// leases are all Leases with a holder, other than those of the API server itself.
func leases(ctx context.Context, c client.Client) ([]history.Key, error) {
	var list coordinationv1.LeaseList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Leases: %w", err)
	}
	var all []history.Key
	for _, o := range list.Items {
		if ptr.Deref(o.Spec.HolderIdentity, "") != "" && !strings.HasPrefix(o.Name, "apiserver-") {
			all = append(all, history.Key{Resource: history.Leases, Namespace: o.Namespace, Name: o.Name})
		}
	}
	return all, nil
}

// unwatched are resources with many objects, or with a successor in Kubernetes.
var unwatched = []string{"events", "endpoints"}

// watchable are all resources that can be watched and created, but Leases and those above.
func watchable(plane *env.ControlPlane) ([]history.Resource, error) {
	c, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	lists, err := c.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discovering the resources: %w", err)
	}
	var all []history.Resource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discovering the resources: %w", err)
		}
		for _, r := range list.APIResources {
			found := history.Resource{Group: version.Group, Resource: r.Name}
			if slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "create") && found != history.Leases &&
				!slices.Contains(unwatched, r.Name) {
				all = append(all, found)
			}
		}
	}
	return all, nil
}

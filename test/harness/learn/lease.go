// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/internal/process"
)

const (
	// leaseTimeout bounds the wait for the operator's Lease.
	leaseTimeout  = time.Minute
	leaseInterval = 200 * time.Millisecond
)

// findLease runs one replica on a control plane of its own until it holds a Lease.
func (l *learner) findLease(ctx context.Context) (err error) {
	s, err := l.load(ctx)
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
	defer func() { err = errors.Join(err, NoteNotEnded(l.output, installation.Stop(lasting))) }()
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
	if l.draft.Leases, err = waitForLease(ctx, c, before, l.restarting(replica)); err != nil {
		text, unread := os.ReadFile(replica.LogPath())
		return fmt.Errorf("%w; set what the operator needs with --args, --env or --values. It must use leader election: it may "+
			"need a flag for that, its namespace in a flag or in POD_NAMESPACE, or a Role for Leases there.\n%s", errors.Join(err, unread),
			logTails(map[string][]byte{replica.Name(): text}))
	}
	l.draft.Lease = l.draft.Leases[0]
	namespace := installation.Shipped().Namespace
	if i := slices.IndexFunc(l.draft.Leases, func(k history.Key) bool { return k.Namespace == namespace }); i >= 0 {
		l.draft.Lease = l.draft.Leases[i]
	}
	l.resources, err = watchable(plane)
	return err
}

// NoteNotEnded prints that the program did not end at SIGTERM, which is a finding and keeps nothing
// from being learned, and returns the other errors of a stop.
func NoteNotEnded(output io.Writer, err error) error {
	notEnded, others := process.SplitNotEnded(err)
	if notEnded != nil {
		fmt.Fprintf(output, "finding: %v\n", notEnded)
	}
	return others
}

// maxRestarts bounds how often a program that ends is started again while its Lease is awaited.
const maxRestarts = 5

// restarting returns a function that starts a program again if it has exited, as a kubelet does, and
// reports whether it runs then. A program may end until a Secret or a webhook is there.
func (l *learner) restarting(replica restartable) func() bool {
	restarts := 0
	return func() bool {
		if replica.Running() {
			return true
		}
		if restarts == maxRestarts {
			return false
		}
		restarts++
		fmt.Fprintf(l.output, "the program ended; restarting it, attempt %d of %d\n", restarts, maxRestarts)
		return replica.Restart() == nil
	}
}

// restartable is a replica.
type restartable interface {
	Running() bool
	Restart() error
}

// waitForLease returns the Leases that the operator has taken while it ran.
func waitForLease(ctx context.Context, c client.Client, before []history.Key,
	running func() bool) (taken []history.Key, err error) {
	err = wait.PollUntilContextTimeout(ctx, leaseInterval, leaseTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := leases(ctx, c)
		taken = slices.DeleteFunc(now, func(k history.Key) bool { return slices.Contains(before, k) })
		if err == nil && len(taken) == 0 && !running() {
			return false, errors.New("the program ended")
		}
		return len(taken) > 0, err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the operator acquired no Lease within %s", leaseTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for a Lease of the operator: %w", err)
	}
	return taken, nil
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

// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// standby waits for the Lease. Only the elector's goroutine uses it.
type standby struct {
	name        string // of the Lease
	client      coordinationv1client.LeaseInterface
	clock       clock.Clock
	elapsed     func() time.Duration
	retryPeriod time.Duration

	view      view
	leases    *watcher // of the Lease
	listed    bool     // the watch of the Lease has begun
	pods      *watcher // of the holder's Pod
	watched   target   // what pods watches
	explained bool     // the reason for missing evidence has been logged
}

// target is the Pod to watch; zero for none.
type target struct {
	name string
	uid  types.UID
}

func newStandby(config *rest.Config, l *Lock, o Options) (*standby, error) {
	// A client's timeout ends its watches, too.
	watching := clientConfig(config, o.RenewDeadline)
	timeout := watching.Timeout
	watching.Timeout = 0
	if watching.AcceptContentTypes == "" && watching.ContentType == "" { // as typed clients
		watching.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	coordination, err := coordinationv1client.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("building the client that watches the Lease: %w", err)
	}
	core, err := corev1client.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("building the client that watches Pods: %w", err)
	}
	of := func(client rest.Interface, resource string) *watcher {
		return &watcher{client: client, resource: resource, namespace: o.Lease.Namespace, elapsed: o.Elapsed,
			timeout: timeout}
	}
	return &standby{
		name:        o.Lease.Name,
		client:      l.client,
		clock:       o.Clock,
		elapsed:     o.Elapsed,
		retryPeriod: o.RetryPeriod,
		view:        view{identity: l.identity, podUID: o.PodUID, container: o.Container, evidence: o.Evidence},
		leases:      of(coordination.RESTClient(), "leases"),
		pods:        of(core.RESTClient(), "pods"),
	}, nil
}

// await blocks until the Lease may be taken, or ctx is done.
func (s *standby) await(ctx context.Context) (decision, error) {
	s.explain(ctx)
	for {
		now := s.elapsed()
		s.watch(ctx, now)
		d := s.view.decide(now, s.retryPeriod)
		switch d.action {
		case takeLease:
			return d, nil
		case readLive:
			s.read(ctx, now)
		case wait:
			s.next(ctx, d.until-now)
		}
		if err := ctx.Err(); err != nil {
			s.leases.stop()
			s.pods.stop()
			return decision{}, fmt.Errorf("waiting for the Lease: %w", err)
		}
	}
}

// stop ends the watches of a standby that has become leader, and drops their state.
func (s *standby) stop() {
	s.leases.stop()
	s.pods.stop()
	v := s.view
	s.view = view{identity: v.identity, podUID: v.podUID, container: v.container, evidence: v.evidence}
	s.watched, s.pods.from = target{}, 0
}

// explain logs once why this replica gives no evidence.
func (s *standby) explain(ctx context.Context) {
	if s.explained {
		return
	}
	s.explained = true
	switch logger := klog.FromContext(ctx); {
	case !s.view.evidence:
		logger.Info("waiting until the Lease is released or expires: earlier takeovers are disabled")
	case s.view.podUID == "":
		logger.Info("the Lease will not name this Pod because the UID of the Pod is unknown; set the environment " +
			"variable POD_UID")
	}
}

// watch starts the watches that are missing, each at most once a retry period.
func (s *standby) watch(ctx context.Context, now time.Duration) {
	if !s.leases.running() && now >= max(s.view.mayRead, s.leases.from) {
		s.leases.start(ctx, s.name)
		s.listed = false
		// The list with which a watch begins is a live read.
		s.view.broken, s.view.heard, s.view.mayRead = false, now, now+s.retryPeriod
	}
	var pod target
	if h, named := holderOf(s.view.lease); named && s.view.evidence && h.uid != s.view.podUID {
		pod = target{h.pod, h.uid}
	}
	if pod != s.watched {
		s.pods.stop()
		s.watched, s.pods.from = pod, now
	}
	if s.lacksPods() && now >= s.pods.from {
		s.pods.start(ctx, pod.name)
		s.pods.from = now + s.retryPeriod
	}
}

// lacksPods reports whether the watch of the holder's Pod has to be started.
func (s *standby) lacksPods() bool {
	return s.watched != (target{}) && !s.pods.running()
}

// read reads the Lease live.
func (s *standby) read(ctx context.Context, began time.Duration) {
	s.view.mayRead = began + s.retryPeriod
	before := s.view.version
	lease, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	now := s.elapsed()
	switch {
	case apierrors.IsNotFound(err):
		s.view.observeLive(nil, began, now)
	case err != nil:
		s.view.failed = true
		klog.FromContext(ctx).V(2).Info("reading the Lease failed", "error", err.Error())
		return
	default:
		s.view.observeLive(lease, began, now)
	}
	// A working watch would have shown this version before.
	if s.view.version != before && now >= s.view.heard+silentPeriods*s.retryPeriod {
		s.leases.stop()
		s.view.broken = true
	}
}

// next blocks until there is an event of the Lease or of the Pod, or until the time of the
// decision.
func (s *standby) next(ctx context.Context, d time.Duration) {
	if s.lacksPods() {
		d = min(d, s.pods.from-s.elapsed())
	}
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case seen := <-s.leases.sightings:
		s.seeLease(ctx, seen)
	case seen := <-s.pods.sightings:
		s.seePod(ctx, seen)
	}
}

func (s *standby) seeLease(ctx context.Context, seen sighting) {
	now := s.elapsed()
	if seen.err != nil {
		s.leases.stop()
		s.view.broken = true
		s.leases.rest(ctx, seen.err,
			"reading the Lease once per retry period because watching the Lease is forbidden; grant this permission "+
				"as in config/rbac")
		if !s.listed {
			// The list was the live read of this retry period. A read of one object may still work.
			s.read(ctx, now)
		}
		return
	}
	s.view.heard = now
	lease, _ := seen.object.(*coordinationv1.Lease) // nil where there is none
	switch {
	case seen.listed:
		s.listed = true
		s.view.observeLive(lease, seen.began, now)
	case seen.deleted && s.view.lease != nil && s.view.lease.UID == lease.UID:
		s.view.version = lease.ResourceVersion
		s.view.observe(nil, now)
	case !seen.deleted:
		s.view.observe(lease, now)
	}
}

func (s *standby) seePod(ctx context.Context, seen sighting) {
	switch pod, found := seen.object.(*corev1.Pod); {
	case seen.err != nil:
		s.pods.stop()
		s.pods.rest(ctx, seen.err,
			"waiting until the Lease is released or expires because watching Pods is forbidden; grant this "+
				"permission as in config/rbac")
	case found:
		s.view.observePod(pod, s.elapsed())
	}
}

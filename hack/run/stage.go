package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
)

// pollEvery is how often things that cannot be watched are looked at.
const pollEvery = 100 * time.Millisecond

// stage is what run has set up so far.
type stage struct {
	settings *settings
	out      *teller

	plane        *env.ControlPlane
	storage      *storage
	node         *env.Node
	installation *env.Installation
	deserted     chan struct{} // closed when no replica runs any more
	client       client.Client
	unfollow     func() // ends what follow began
	samples      []*unstructured.Unstructured
}

func (s *stage) startControlPlane(ctx context.Context) error {
	s.out.say("control plane", "starting etcd, kube-apiserver and kube-controller-manager")
	var err error
	s.plane, err = env.Start(ctx, env.Options{
		WorkDir:     s.settings.workDir,
		CRDs:        []string{filepath.Join(s.settings.config, "crd", "bases")},
		AuditGroups: []string{v1beta1.GroupVersion.Group},
		Controllers: env.WorkloadControllers,
	})
	if err != nil {
		return err
	}
	s.out.say("control plane", "answers; data, logs and audit log in %s", short(s.plane.Dir()))
	return nil
}

// install applies config/default; see env.Installation for what stands in for
// what is not here.
func (s *stage) install(ctx context.Context) error {
	folder := filepath.Join(s.settings.config, "default")
	var err error
	s.installation, err = s.plane.Install(ctx, env.Subject{
		Manifests: folder,
		Binary:    s.settings.manager,
		Args: func(ports env.ReplicaPorts) []string {
			return append([]string{
				fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports.Probe),
				fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports.Metrics),
				"--webhook-host=127.0.0.1",
				fmt.Sprintf("--webhook-port=%d", ports.Webhook),
				// Our S3 server is on this machine, which is forbidden otherwise.
				"--endpoint-allow-cidr=127.0.0.1/32",
			}, electionArgs(s.settings.lease)...)
		},
	})
	if err != nil {
		return err
	}
	s.out.say("install", "%d objects of %s: definitions, rights, webhooks", s.installation.Objects(), folder)
	return nil
}

// electionArgs keeps the proportions of the shipped durations, 15 s, 10 s and 2 s.
func electionArgs(lease time.Duration) []string {
	if lease == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("--leader-elect-lease-duration=%v", lease),
		fmt.Sprintf("--leader-elect-renew-deadline=%v", lease*10/15),
		fmt.Sprintf("--leader-elect-retry-period=%v", lease*2/15),
	}
}

// startReplicas runs what the Deployment's Pods would run.
func (s *stage) startReplicas(ctx context.Context) error {
	s.deserted = make(chan struct{})
	var running sync.WaitGroup
	for range ptr.Deref(s.installation.Shipped().Spec.Replicas, 1) {
		replica, err := s.installation.Start(ctx)
		if err != nil {
			return err
		}
		s.out.say("operator", "%s runs as process %d, log %s", replica.Name(), replica.Pid(), short(replica.LogPath()))
		running.Go(func() { s.mourn(ctx, replica) })
	}
	go func() {
		running.Wait()
		close(s.deserted)
	}()
	return nil
}

// mourn says so when a replica ends that nobody told to.
func (s *stage) mourn(ctx context.Context, replica *env.Replica) {
	select {
	case <-ctx.Done():
	case <-replica.Done():
		if ctx.Err() == nil {
			s.out.say("operator", "%s has ended by itself; the end of its log:\n%s", replica.Name(), cut(replica.LogTail(8)))
		}
	}
}

func (s *stage) awaitReplicas(ctx context.Context) error {
	began := time.Now()
	for _, replica := range s.installation.Replicas() {
		var last error
		err := wait.PollUntilContextTimeout(ctx, pollEvery, s.settings.timeout, true, func(ctx context.Context) (bool, error) {
			if !replica.Running() {
				return false, errors.New("it has ended")
			}
			last = replica.Ready(ctx)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be ready: %w", replica.Name(), errors.Join(err, last))
		}
		s.out.say("operator", "%s is ready after %.1f s", replica.Name(), time.Since(began).Seconds())
	}
	return nil
}

// applySamples tries until the webhooks answer: the forwarder learns a moment
// later than we that a replica is ready, the API server learns the certificate
// authority from a watch.
func (s *stage) applySamples(ctx context.Context) error {
	folder := filepath.Join(s.settings.config, "samples")
	samples, err := s.plane.Render(ctx, folder)
	if err != nil {
		return err
	}
	if err := s.storage.prepare(ctx, s.plane, samples); err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollEvery, s.settings.timeout, true, func(ctx context.Context) (bool, error) {
		last = s.plane.Apply(ctx, samples...)
		// A webhook that cannot be called is an internal error, one that refuses is not.
		if last != nil && !apierrors.IsInternalError(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("applying %s: %w", folder, errors.Join(err, last))
	}
	s.samples = samples
	for _, sample := range samples {
		s.out.say("samples", "applied %s %s", sample.GetKind(), sample.GetName())
	}
	return nil
}

func (s *stage) awaitSamples(ctx context.Context) error {
	for _, sample := range s.samples {
		got := sample.DeepCopy()
		err := wait.PollUntilContextTimeout(ctx, pollEvery, s.settings.timeout, true, func(ctx context.Context) (bool, error) {
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(sample), got); err != nil {
				return false, err
			}
			ready := conditionOf(got, v1beta1.ConditionReady)
			return ready != nil && ready["status"] == "True", nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s %s to be Ready: %w", sample.GetKind(), sample.GetName(), err)
		}
	}
	s.out.say("samples", "all of them are Ready")
	return nil
}

// clear stops everything that was started, in the opposite order.
func (s *stage) clear(ctx context.Context) error {
	if s.plane == nil {
		return nil
	}
	var errs []error
	if s.unfollow != nil {
		s.unfollow()
	}
	if s.node != nil {
		s.node.Stop()
	}
	if s.installation != nil {
		errs = append(errs, s.installation.Stop(ctx))
		s.out.say("stopping", "the replicas have ended")
	}
	if s.storage != nil {
		errs = append(errs, s.storage.stop())
	}
	if err := s.plane.Stop(); err != nil {
		errs = append(errs, err)
	} else {
		s.out.say("stopping", "the control plane has ended, its folder is gone")
	}
	return errors.Join(errs...)
}

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
	"leasehold.dev/test/leasehold"
)

// pollInterval is the period of all polling.
const pollInterval = 100 * time.Millisecond

// environment is what run has started so far.
type environment struct {
	settings *settings
	out      *progress

	plane         *env.ControlPlane
	storage       *storage
	node          *env.Node
	installation  *env.Installation
	kept          sync.WaitGroup // restarts replicas
	client        client.Client
	stopFollowing func() // ends what follow began
	samples       []*unstructured.Unstructured
}

func (e *environment) startControlPlane(ctx context.Context) error {
	e.out.printf("control plane", "starting etcd, kube-apiserver and kube-controller-manager")
	var err error
	e.plane, err = leasehold.StartControlPlane(ctx, e.settings.config, env.Options{
		WorkDir:     e.settings.workDir,
		Controllers: env.WorkloadControllers,
	})
	if err != nil {
		return err
	}
	e.out.printf("control plane", "answers; data, logs and audit log in %s", short(e.plane.Dir()))
	return nil
}

// install applies config/default. env.Installation describes what replaces the Pods.
func (e *environment) install(ctx context.Context) error {
	// The S3 server runs on this machine, which the operator denies by default.
	args := append([]string{"--endpoint-allow-cidr=127.0.0.1/32"}, electionArgs(e.settings.lease)...)
	subject := leasehold.Subject(e.settings.config, e.settings.manager, args...)
	var err error
	e.installation, err = e.plane.Install(ctx, subject)
	if err != nil {
		return err
	}
	e.out.printf("install", "%d objects of %s: definitions, rights, webhooks", e.installation.Objects(), subject.Manifests)
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

// startReplicas starts as many replicas as the Deployment has.
func (e *environment) startReplicas(ctx context.Context) error {
	for range ptr.Deref(e.installation.Shipped().Spec.Replicas, 1) {
		replica, err := e.installation.Start(ctx)
		if err != nil {
			return err
		}
		e.out.printf("operator", "%s runs as process %d, log %s", replica.Name(), replica.Pid(), short(replica.LogPath()))
	}
	return nil
}

func (e *environment) awaitReplicas(ctx context.Context) error {
	began := time.Now()
	for _, replica := range e.installation.Replicas() {
		var last error
		err := wait.PollUntilContextTimeout(ctx, pollInterval, e.settings.timeout, true,
			func(ctx context.Context) (bool, error) {
				if !replica.Running() {
					return false, fmt.Errorf("it has ended; the end of its log:\n%s", cut(replica.LogTail(8)))
				}
				last = replica.Ready(ctx)
				return last == nil, nil
			})
		if err != nil {
			return fmt.Errorf("waiting for %s to be ready: %w", replica.Name(), errors.Join(err, last))
		}
		e.out.printf("operator", "%s is ready after %.1f s", replica.Name(), time.Since(began).Seconds())
	}
	return nil
}

// applySamples retries until the webhooks respond. The forwarder detects later than this process
// that a replica is ready, and the API server gets the CA from a watch.
func (e *environment) applySamples(ctx context.Context) error {
	folder := filepath.Join(e.settings.config, "samples")
	samples, err := e.plane.Render(ctx, folder)
	if err != nil {
		return err
	}
	if err := e.storage.prepare(ctx, e.plane, samples); err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollInterval, e.settings.timeout, true,
		func(ctx context.Context) (bool, error) {
			last = e.plane.Apply(ctx, samples...)
			// The API server reports a webhook that it cannot call as an internal error.
			if last != nil && !apierrors.IsInternalError(last) {
				return false, last
			}
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("applying %s: %w", folder, errors.Join(err, last))
	}
	e.samples = samples
	for _, sample := range samples {
		e.out.printf("samples", "applied %s %s", sample.GetKind(), sample.GetName())
	}
	return nil
}

func (e *environment) awaitSamples(ctx context.Context) error {
	for _, sample := range e.samples {
		got := sample.DeepCopy()
		err := wait.PollUntilContextTimeout(ctx, pollInterval, e.settings.timeout, true,
			func(ctx context.Context) (bool, error) {
				if err := e.client.Get(ctx, client.ObjectKeyFromObject(sample), got); err != nil {
					return false, err
				}
				ready := conditionOf(got, v1beta1.ConditionReady)
				return ready != nil && ready["status"] == "True", nil
			})
		if err != nil {
			return fmt.Errorf("waiting for %s %s to be Ready: %w", sample.GetKind(), sample.GetName(), err)
		}
	}
	e.out.printf("samples", "all of them are Ready")
	return nil
}

// stop stops everything that was started, in the opposite order.
func (e *environment) stop(ctx context.Context) error {
	if e.plane == nil {
		return nil
	}
	var errs []error
	if e.stopFollowing != nil {
		e.stopFollowing()
	}
	if e.node != nil {
		e.node.Stop()
	}
	e.kept.Wait()
	if e.installation != nil {
		errs = append(errs, e.installation.Stop(ctx))
		e.out.printf("stopping", "the replicas have ended")
	}
	if e.storage != nil {
		errs = append(errs, e.storage.stop())
	}
	if err := e.plane.Stop(); err != nil {
		errs = append(errs, err)
	} else {
		e.out.printf("stopping", "the control plane has ended, its folder is gone")
	}
	return errors.Join(errs...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/leasehold"
)

const (
	config = "config" // folder of the kustomize configuration
	// sampleBucket must exist for the sample that observes a bucket.
	sampleBucket = "sample-data"
	pollInterval = 100 * time.Millisecond
)

// environment is what run has started so far.
type environment struct {
	workDir string
	out     *progress

	plane        *env.ControlPlane
	server       *env.S3Server
	installation *env.Installation
	node         *env.Node
	client       client.Client
	running      sync.WaitGroup // ends with the context of the steps
}

func (e *environment) startControlPlane(ctx context.Context) error {
	e.out.printf("control plane", "starting etcd, kube-apiserver and kube-controller-manager")
	var err error
	e.plane, err = leasehold.StartControlPlane(ctx, config, env.Options{
		WorkDir:     e.workDir,
		Controllers: env.WorkloadControllers,
	})
	if err != nil {
		return err
	}
	e.out.printf("control plane", "answers; data, logs and audit log in %s", short(e.plane.Dir()))
	e.client, err = client.New(e.plane.Config(), client.Options{Scheme: leasehold.Scheme()})
	return err
}

// startStorage starts the S3 server that the sample buckets are on, and restarts it when a user has killed it.
func (e *environment) startStorage(ctx context.Context) error {
	server, err := env.StartS3(ctx, env.S3Options{WorkDir: e.workDir})
	if err != nil {
		return err
	}
	e.server = server
	e.running.Go(func() {
		e.out.keep(ctx, "storage", "the S3 server", server, func(int) time.Duration { return serverPause },
			func() error { return server.Restart(ctx) })
	})
	if err := server.Client().MakeBucket(ctx, sampleBucket, minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("making the bucket of a sample: %w", err)
	}
	e.out.printf("storage", "an S3 server outside the cluster answers at %s as process %d", server.Endpoint(), server.Pid())
	return nil
}

// install applies config/default. env.Installation describes what replaces the Pods.
func (e *environment) install(ctx context.Context) error {
	// The S3 server runs on this machine, which the operator denies by default.
	subject := leasehold.Subject(config, filepath.Join("bin", "manager"), "--endpoint-allow-cidr=127.0.0.1/32")
	var err error
	e.installation, err = e.plane.Install(ctx, subject)
	if err != nil {
		return err
	}
	e.out.printf("install", "%d objects of %s: definitions, rights, webhooks", e.installation.Objects(), subject.Manifests)
	return nil
}

// startNode runs the viewers as processes in place of containers.
func (e *environment) startNode(ctx context.Context) error {
	viewerImage := ""
	for _, arg := range e.installation.Shipped().Spec.Template.Spec.Containers[0].Args {
		if image, ok := strings.CutPrefix(arg, "--default-viewer-image="); ok {
			viewerImage = image
		}
	}
	var err error
	e.node, err = e.plane.StartNode(ctx, env.NodeOptions{
		Images: map[string]env.Program{viewerImage: {
			Binary: filepath.Join("bin", "viewer"),
			Args: func(port int, volumes map[string]string) []string {
				return []string{fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--dir=" + volumes["/book/src"]}
			},
		}},
		Serving: func(pod types.NamespacedName, url string) {
			e.out.printf("page", "%s is served at %s", pod.Name, url)
		},
		Failed: func(pod types.NamespacedName, err error) {
			e.out.printf("failed", "%s: %v", pod.Name, err)
		},
	})
	return err
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
	for _, replica := range e.installation.Replicas() {
		err := until(ctx, func(ctx context.Context) (retry bool, err error) {
			if !replica.Running() {
				return false, fmt.Errorf("it has ended; the end of its log:\n%s", replica.LogTail(8))
			}
			return true, replica.Ready(ctx)
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be ready: %w", replica.Name(), err)
		}
		e.out.printf("operator", "%s is ready", replica.Name())
	}
	return nil
}

// keepReplicas starts replicas again that have ended.
func (e *environment) keepReplicas(ctx context.Context) error {
	for _, r := range e.installation.Replicas() {
		e.running.Go(func() { e.out.keep(ctx, "operator", r.Name(), r, kubeletPause, r.Restart) })
	}
	return nil
}

// applySamples waits until the samples are Ready. It retries until the webhooks respond: the forwarder
// detects later than this process that a replica is ready, and the API server gets the CA from a watch.
func (e *environment) applySamples(ctx context.Context) error {
	folder := filepath.Join(config, "samples")
	samples, err := e.plane.Render(ctx, folder)
	if err != nil {
		return err
	}
	for _, sample := range samples {
		if sample.GetKind() == "StorageBucket" {
			err = errors.Join(err, e.connect(ctx, sample))
		}
	}
	if err != nil {
		return fmt.Errorf("connecting the sample buckets to the S3 server: %w", err)
	}
	err = until(ctx, func(ctx context.Context) (retry bool, err error) {
		err = e.plane.Apply(ctx, samples...)
		// The API server reports a webhook that it cannot call as an internal error.
		return apierrors.IsInternalError(err), err
	})
	if err != nil {
		return fmt.Errorf("applying %s: %w", folder, err)
	}
	if _, err := e.plane.Kubectl(ctx, "wait", "tenants,storagebuckets,markdownviews", "--all", "--all-namespaces",
		"--for=condition=Ready", "--timeout="+timeout.String()); err != nil {
		return err
	}
	e.out.printf("samples", "all of them are Ready")
	return nil
}

// connect gives a sample bucket the endpoint and the keys of the server.
func (e *environment) connect(ctx context.Context, sample *unstructured.Unstructured) error {
	name, _, err := unstructured.NestedString(sample.Object, "spec", "credentialsSecretRef", "name")
	if err != nil {
		return err
	}
	keys := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: sample.GetNamespace(), Name: name},
		StringData: map[string]string{
			v1beta1.SecretKeyAccessKeyID:     e.server.Account().AccessKey,
			v1beta1.SecretKeySecretAccessKey: e.server.Account().SecretKey,
		},
	}
	// Samples share a Secret.
	if err := client.IgnoreAlreadyExists(e.client.Create(ctx, keys)); err != nil {
		return err
	}
	return unstructured.SetNestedField(sample.Object, e.server.Endpoint(), "spec", "endpoint")
}

// until calls try until it returns no error or none that it retries. The error at the end of the
// time is the last one of try.
func until(ctx context.Context, try func(context.Context) (retry bool, err error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		var retry bool
		if retry, last = try(ctx); last != nil && !retry {
			return false, last
		}
		return last == nil, nil
	})
	if wait.Interrupted(err) {
		return errors.Join(err, last)
	}
	return err
}

// stop stops everything that was started, in the opposite order. The context of the steps has ended.
func (e *environment) stop(ctx context.Context) error {
	e.running.Wait()
	if e.plane == nil {
		return nil
	}
	var errs []error
	if e.node != nil {
		e.node.Stop()
	}
	if e.installation != nil {
		errs = append(errs, e.installation.Stop(ctx))
		e.out.printf("stopping", "the replicas have ended")
	}
	if e.server != nil {
		// It is no failure if a user has killed it.
		running := e.server.Running()
		if err := e.server.Stop(); running {
			errs = append(errs, err)
		}
	}
	errs = append(errs, e.plane.Stop())
	e.out.printf("stopping", "the control plane has ended, its folder is gone")
	return errors.Join(errs...)
}

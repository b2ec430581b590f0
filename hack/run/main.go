// SPDX-License-Identifier: Apache-2.0

// Command run demonstrates Leasehold on this machine. It starts a control plane, an S3 server and two
// replicas of the operator with the shipped RBAC rules, applies the samples, and prints what happens until
// Ctrl-C.
//
// `make run` builds everything that is needed and starts the command. With -once, the command exits as soon as
// the samples are Ready.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/minio/minio-go/v7"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/s3server"
	"leasehold.dev/test/leasehold"
)

const (
	config      = "config" // folder of the kustomize configuration
	viewerImage = "leasehold-viewer:dev"
)

// polling waits for a condition for up to 2 minutes.
var polling = wait.Backoff{Duration: 100 * time.Millisecond, Steps: 1200}

// commands are for the user to try.
//
//go:embed commands.txt
var commands string

func main() { os.Exit(program.Run("run", nil, run)) }

// run starts everything, waits for the end and stops everything. It returns no error after a signal.
func run(ctx context.Context, args []string, output io.Writer) (err error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	workDir := flags.String("workdir", filepath.Join("bin", "run"), "The directory for data and logs. It is removed at the end.")
	once := flags.Bool("once", false, "Exit with code 0 as soon as the samples are Ready.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	}
	// A second signal ends this process at once. The watchdog of the control plane then removes what is left.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	// The libraries log watches that end with the control plane.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	e := &environment{workDir: *workDir, out: newProgress(output)}
	working, end := context.WithCancel(ctx)
	defer func() {
		if ctx.Err() != nil {
			err = nil // the error is that of the signal
		}
		end() // first, so that it reports no process that stops below
		err = errors.Join(err, e.stop(context.WithoutCancel(ctx)))
	}()
	if err := e.start(working); err != nil || *once {
		return err
	}
	if err := e.out.template(commands, map[string]any{"plane": e.plane, "server": e.server}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// environment is what run has started so far.
type environment struct {
	workDir      string
	out          *progress
	plane        *env.ControlPlane
	server       *s3server.Server
	installation *env.Installation
	node         *env.Node
	running      sync.WaitGroup // ends with the context of start
}

// start starts everything, and returns when the samples are Ready.
func (e *environment) start(ctx context.Context) (err error) {
	if err := env.CheckControllers(); err != nil {
		return fmt.Errorf("finding the control plane: %w", err)
	}
	e.out.printf("control plane", "starting etcd, kube-apiserver and kube-controller-manager")
	options := env.Options{WorkDir: e.workDir, Controllers: env.WorkloadControllers}
	if e.plane, err = leasehold.StartControlPlane(ctx, config, options); err != nil {
		return err
	}
	e.out.printf("control plane", "running; data, logs and the audit log are in %s",
		filepath.Join(e.workDir, filepath.Base(e.plane.Dir())))
	if e.server, err = s3server.Start(ctx, s3server.Options{WorkDir: e.workDir}); err != nil {
		return err
	}
	// The sample that observes a bucket does not create it.
	if err = e.server.Client().MakeBucket(ctx, "sample-data", minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("creating the bucket of a sample: %w", err)
	}
	e.out.printf("storage", "an S3 server outside the cluster listens at %s, process %d", e.server.Endpoint(), e.server.Pid())
	e.running.Go(func() {
		again := func() error { return e.server.Restart(ctx) }
		// An outage is long enough for the buckets to become unreachable.
		e.out.keep(ctx, "storage", "the S3 server", e.server, time.Minute, time.Minute, again)
	})
	// The operator rejects local addresses, such as this S3 server's, by default.
	subject := leasehold.Subject(config, filepath.Join("bin", "manager"), "--endpoint-allow-cidr=127.0.0.1/32",
		"--default-viewer-image="+viewerImage)
	if e.installation, err = e.plane.Install(ctx, subject); err != nil {
		return err
	}
	e.out.printf("install", "applied %d objects of %s: CRDs, RBAC rules, webhooks", e.installation.Objects(), subject.Manifests)
	for _, step := range []func(context.Context) error{
		e.follow,        // before the first change
		e.startNode,     // before there are viewers
		e.startReplicas, // webhooks answer from here on
		e.applySamples,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startNode runs the viewers as processes instead of containers.
func (e *environment) startNode(ctx context.Context) (err error) {
	e.node, err = e.plane.StartNode(ctx, env.NodeOptions{
		Images: map[string]env.Program{viewerImage: {
			Binary: filepath.Join("bin", "viewer"),
			Args: func(port int, volumes map[string]string) []string {
				return []string{fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--dir=" + volumes["/book/src"]}
			},
		}},
		Serving: func(pod types.NamespacedName, url string) { e.out.printf("page", "%s is served at %s", pod.Name, url) },
		Failed:  func(pod types.NamespacedName, err error) { e.out.printf("failed", "%s: %v", pod.Name, err) },
	})
	return err
}

// startReplicas starts as many replicas as the Deployment has. One that ends before it is ready is an
// error; one that ends later is started again.
func (e *environment) startReplicas(ctx context.Context) error {
	for range ptr.Deref(e.installation.Shipped().Spec.Replicas, 1) {
		r, err := e.installation.Start(ctx)
		if err != nil {
			return err
		}
		e.out.printf("operator", "%s runs as process %d; its log is %s", r.Name(), r.Pid(), filepath.Base(r.LogPath()))
	}
	for _, r := range e.installation.Replicas() {
		err := retry.OnError(polling, func(error) bool { return r.Running() && ctx.Err() == nil },
			func() error { return r.Ready(ctx) })
		if err != nil {
			return fmt.Errorf("waiting for %s: %w; the end of its log:\n%s", r.Name(), err, r.LogTail(8))
		}
		e.out.printf("operator", "%s is ready", r.Name())
		e.running.Go(func() { e.out.keep(ctx, "operator", r.Name(), r, 0, 5*time.Minute, r.Restart) })
	}
	return nil
}

// applySamples applies config/samples, with their buckets on the S3 server, and waits until they are Ready.
// It retries until the webhooks respond: the forwarder detects later than this process that a replica is
// ready, and the API server gets the CA from a watch.
func (e *environment) applySamples(ctx context.Context) error {
	folder, account := filepath.Join(config, "samples"), e.server.Account()
	samples, _, err := env.InstallOptions{Manifests: folder}.Render(ctx)
	for _, sample := range samples {
		if sample.GetKind() == "StorageBucket" {
			err = errors.Join(err, unstructured.SetNestedField(sample.Object, e.server.Endpoint(), "spec", "endpoint"))
		}
	}
	if err != nil {
		return err
	}
	samples = slices.Insert(samples, 0, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "default", "name": "sample-s3"},
		"stringData": map[string]any{
			v1beta1.SecretKeyAccessKeyID: account.AccessKey, v1beta1.SecretKeySecretAccessKey: account.SecretKey,
		},
	}})
	// The API server reports a webhook that it cannot call as an internal error.
	err = retry.OnError(polling, apierrors.IsInternalError, func() error { return e.plane.Apply(ctx, samples...) })
	if err != nil {
		return fmt.Errorf("applying %s: %w", folder, err)
	}
	_, err = e.plane.Kubectl(ctx, "wait", "leasehold", "--all", "--all-namespaces",
		"--for=condition=Ready", "--timeout=2m")
	if err == nil {
		e.out.printf("samples", "all samples are Ready")
	}
	return err
}

// stop stops everything that was started, in the opposite order. The context of start has ended.
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
		e.out.printf("stopping", "the replicas have exited")
	}
	if e.server != nil {
		running := e.server.Running() // a user may have killed it
		if err := e.server.Stop(); running {
			errs = append(errs, err)
		}
	}
	errs = append(errs, e.plane.Stop())
	e.out.printf("stopping", "the control plane has exited, and its directory is removed")
	return errors.Join(errs...)
}

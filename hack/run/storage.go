package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
)

const (
	// sampleBucket must exist for the sample that observes a bucket.
	sampleBucket = "sample-data"
	// restartDelay is the pause before a killed S3 server restarts. It is long enough for
	// its buckets to become unreachable.
	restartDelay = time.Minute
	// viewerFlag sets the operator's default image of MarkdownViews.
	viewerFlag = "--default-viewer-image="
)

// storage is the S3 server that the sample buckets are on.
type storage struct {
	server *env.S3Server
	end    context.CancelFunc
	ended  chan struct{}
}

func (e *environment) startStorage(ctx context.Context) error {
	server, err := env.StartS3(ctx, env.S3Options{WorkDir: e.settings.workDir})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	e.storage = &storage{server: server, end: end, ended: make(chan struct{})}
	go e.storage.restartWhenEnded(ctx, e.out)
	if err := server.Client().MakeBucket(ctx, sampleBucket, minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("making the bucket of a sample: %w", err)
	}
	e.out.printf("storage", "an S3 server outside the cluster answers at %s as process %d", server.Endpoint(),
		server.Pid())
	return nil
}

// restartWhenEnded restarts the server after a user has killed it.
func (s *storage) restartWhenEnded(ctx context.Context, out *progress) {
	defer close(s.ended)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.server.Running() {
			continue
		}
		out.printf("storage", "the S3 server has ended; it restarts in %v", restartDelay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartDelay):
		}
		if err := s.server.Restart(ctx); err != nil {
			out.printf("failed", "%v", err)
			return
		}
		out.printf("storage", "the S3 server runs again as process %d", s.server.Pid())
	}
}

// prepare gives the sample buckets the endpoint and the keys of the server.
func (s *storage) prepare(ctx context.Context, plane *env.ControlPlane, samples []*unstructured.Unstructured) error {
	for _, sample := range samples {
		if sample.GroupVersionKind() != v1beta1.GroupVersion.WithKind("StorageBucket") {
			continue
		}
		if err := unstructured.SetNestedField(sample.Object, s.server.Endpoint(), "spec", "endpoint"); err != nil {
			return fmt.Errorf("setting the endpoint of sample %s: %w", sample.GetName(), err)
		}
		name, _, err := unstructured.NestedString(sample.Object, "spec", "credentialsSecretRef", "name")
		if err != nil {
			return fmt.Errorf("reading the name of the Secret of sample %s: %w", sample.GetName(), err)
		}
		secret, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: sample.GetNamespace(), Name: name},
			Data: map[string][]byte{
				v1beta1.SecretKeyAccessKeyID:     []byte(s.server.Account().AccessKey),
				v1beta1.SecretKeySecretAccessKey: []byte(s.server.Account().SecretKey),
			},
		})
		if err != nil {
			return fmt.Errorf("writing the Secret of sample %s: %w", sample.GetName(), err)
		}
		if err := plane.Apply(ctx, &unstructured.Unstructured{Object: secret}); err != nil {
			return fmt.Errorf("creating the Secret of sample %s: %w", sample.GetName(), err)
		}
	}
	return nil
}

// stop ends the server. It is no failure if a user has killed it.
func (s *storage) stop() error {
	s.end()
	<-s.ended
	running := s.server.Running()
	if err := s.server.Stop(); running {
		return err
	}
	return nil
}

// startNode runs the viewers as processes in place of containers.
func (e *environment) startNode(ctx context.Context) error {
	viewerImage := ""
	for _, arg := range e.installation.Shipped().Spec.Template.Spec.Containers[0].Args {
		if image, ok := strings.CutPrefix(arg, viewerFlag); ok {
			viewerImage = image
		}
	}
	var err error
	e.node, err = e.plane.StartNode(ctx, env.NodeOptions{
		Images: map[string]env.Program{viewerImage: {
			Binary: e.settings.viewer,
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

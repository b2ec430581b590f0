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
	// sampleBucket is the one that the sample which only looks expects to be there.
	sampleBucket = "sample-data"
	// absence is how long a killed S3 server stays away, so that its buckets can
	// be seen to become unreachable.
	absence = time.Minute
	// deathPoll is how often it is looked at whether it was killed.
	deathPoll = 200 * time.Millisecond
	// viewerFlag is how the operator is told its default for MarkdownViews that
	// name no image.
	viewerFlag = "--default-viewer-image="
)

// storage is the S3 server that the sample buckets are on.
type storage struct {
	server *env.S3Server
	end    context.CancelFunc
	ended  chan struct{}
}

func (s *stage) startStorage(ctx context.Context) error {
	server, err := env.StartS3(ctx, env.S3Options{WorkDir: s.settings.workDir})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	s.storage = &storage{server: server, end: end, ended: make(chan struct{})}
	go s.storage.revive(ctx, s.out)
	if err := server.Client().MakeBucket(ctx, sampleBucket, minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("making the bucket of a sample: %w", err)
	}
	s.out.say("storage", "an S3 server outside the cluster answers at %s as process %d", server.Endpoint(), server.Pid())
	return nil
}

// revive starts the server again a while after somebody killed it.
func (s *storage) revive(ctx context.Context, out *teller) {
	defer close(s.ended)
	ticker := time.NewTicker(deathPoll)
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
		out.say("storage", "the S3 server has ended; it comes back in %v", absence)
		select {
		case <-ctx.Done():
			return
		case <-time.After(absence):
		}
		if err := s.server.Restart(ctx); err != nil {
			out.say("failed", "%v", err)
			return
		}
		out.say("storage", "the S3 server is back as process %d", s.server.Pid())
	}
}

// prepare lets the sample buckets lead to the server, and gives them its keys.
func (s *storage) prepare(ctx context.Context, plane *env.ControlPlane, samples []*unstructured.Unstructured) error {
	for _, sample := range samples {
		if sample.GroupVersionKind() != v1beta1.GroupVersion.WithKind("StorageBucket") {
			continue
		}
		if err := unstructured.SetNestedField(sample.Object, s.server.Endpoint(), "spec", "endpoint"); err != nil {
			return fmt.Errorf("giving sample %s its endpoint: %w", sample.GetName(), err)
		}
		name, _, err := unstructured.NestedString(sample.Object, "spec", "credentialsSecretRef", "name")
		if err != nil {
			return fmt.Errorf("reading which Secret sample %s wants: %w", sample.GetName(), err)
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

// stop ends the server. One that somebody killed, as invited, is no failure.
func (s *storage) stop() error {
	s.end()
	<-s.ended
	running := s.server.Running()
	if err := s.server.Stop(); running {
		return err
	}
	return nil
}

// startNode runs the viewers, as processes in place of containers.
func (s *stage) startNode(ctx context.Context) error {
	viewerImage := ""
	for _, arg := range s.installation.Shipped().Spec.Template.Spec.Containers[0].Args {
		if image, ok := strings.CutPrefix(arg, viewerFlag); ok {
			viewerImage = image
		}
	}
	var err error
	s.node, err = s.plane.StartNode(ctx, env.NodeOptions{
		Images: map[string]env.Program{viewerImage: {
			Binary: s.settings.viewer,
			Args: func(port int, volumes map[string]string) []string {
				return []string{fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--dir=" + volumes["/book/src"]}
			},
		}},
		Serving: func(pod types.NamespacedName, url string) {
			s.out.say("page", "%s is served at %s", pod.Name, url)
		},
		Failed: func(pod types.NamespacedName, err error) {
			s.out.say("failed", "%s: %v", pod.Name, err)
		},
	})
	return err
}

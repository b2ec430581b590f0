// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

const (
	s3Port   = 7070
	s3Region = "us-east-1"
	// s3Secret has the keys of the administrator's account.
	s3Secret = "root"
)

// s3 is an S3 server in a namespace of its own that enforces `restricted`. Its data is deleted with
// its Pod.
type s3 struct {
	namespace  string
	keys       map[string]string
	deployment *appsv1.Deployment
}

// newS3 returns a server with random keys.
func newS3() *s3 {
	s := &s3{
		namespace: unique("s3"),
		keys: map[string]string{
			v1beta1.SecretKeyAccessKeyID: rand.Text()[:20], v1beta1.SecretKeySecretAccessKey: (rand.Text() + rand.Text())[:40],
		},
	}
	labels := map[string]string{"app": "s3"}
	s.deployment = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "s3"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.podSpec()},
		},
	}
	return s
}

// podSpec has separate folders for data and metadata, so the file system need not support extended
// attributes.
func (s *s3) podSpec() corev1.PodSpec {
	container := corev1.Container{
		Name: "versitygw", Image: shared.settings.S3Image, ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: restrictedContainer(),
		Args: []string{"--port", fmt.Sprintf(":%d", s3Port), "--region", s3Region, "posix", "--sidecar",
			"/metadata", "/data"},
		Ports: []corev1.ContainerPort{{Name: "s3", ContainerPort: s3Port}},
		ReadinessProbe: &corev1.Probe{
			PeriodSeconds: 1,
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("s3")}},
		},
	}
	for variable, key := range map[string]string{
		"ROOT_ACCESS_KEY_ID": v1beta1.SecretKeyAccessKeyID, "ROOT_SECRET_ACCESS_KEY": v1beta1.SecretKeySecretAccessKey,
	} {
		container.Env = append(container.Env, corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: s3Secret},
				Key: key}}})
	}
	pod := corev1.PodSpec{AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
		SecurityContext: restrictedPod()}
	for _, folder := range []string{"data", "metadata", "tmp"} {
		pod.Volumes = append(pod.Volumes,
			corev1.Volume{Name: folder, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: folder, MountPath: "/" + folder})
	}
	pod.Containers = []corev1.Container{container}
	return pod
}

// start creates the namespace and its objects, and waits for the server.
func (s *s3) start(ctx context.Context, g *WithT) {
	strictNamespace(ctx, g, s.namespace)
	g.Expect(shared.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s3Secret}, StringData: s.keys,
	})).To(Succeed())
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "s3"},
		Spec: corev1.ServiceSpec{
			Selector: s.deployment.Spec.Selector.MatchLabels,
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("s3")}},
		},
	}
	g.Expect(shared.client.Create(ctx, service)).To(Succeed())
	g.Expect(shared.client.Create(ctx, s.deployment)).To(Succeed())
	s.awaitReplicas(ctx, g, 1)
	await(ctx, g, shared.reachable(service), Succeed())
}

// scale sets the number of servers. Each has its own data.
func (s *s3) scale(ctx context.Context, g *WithT, replicas int32) {
	change(ctx, g, s.deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	s.awaitReplicas(ctx, g, replicas)
}

func (s *s3) awaitReplicas(ctx context.Context, g *WithT, replicas int32) {
	await(ctx, g, expect.Fetched(shared.client, s.deployment), And(
		HaveField("Status.Replicas", replicas), HaveField("Status.AvailableReplicas", replicas),
		WithTransform(func(d *appsv1.Deployment) bool { return d.Status.ObservedGeneration == d.Generation }, BeTrue())))
}

// endpoint returns the URL of the server's Service by DNS name.
func (s *s3) endpoint() string { return "http://s3." + s.namespace + ".svc" }

// pod returns the running Pod.
func (s *s3) pod(ctx context.Context) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := shared.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
		return nil, fmt.Errorf("listing the S3 server's Pods: %w", err)
	}
	running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(running) != 1 {
		return nil, fmt.Errorf("the S3 server has %d Pods, want 1", len(running))
	}
	return &running[0], nil
}

// do calls the running server with the administrator's account, without the Service and the operator.
func (s *s3) do(ctx context.Context, request func(*minio.Client) error) error {
	pod, err := s.pod(ctx)
	if err != nil {
		return err
	}
	address, stop, err := shared.cluster.Tunnel(ctx, pod.Spec.NodeName, pod.Status.PodIP, s3Port)
	if err != nil {
		return err
	}
	defer stop()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := minio.New(address, &minio.Options{
		Creds:  credentials.NewStaticV4(s.keys[v1beta1.SecretKeyAccessKeyID], s.keys[v1beta1.SecretKeySecretAccessKey], ""),
		Region: s3Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1, Transport: transport,
	})
	if err != nil {
		return fmt.Errorf("building an S3 client: %w", err)
	}
	return request(c)
}

// make creates a bucket, as its owner would.
func (s *s3) make(ctx context.Context, bucket string) error {
	return s.do(ctx, func(c *minio.Client) error { return c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}) })
}

// owners returns all buckets with the UID of the StorageBucket in their ownership tag, or "".
func (s *s3) owners(ctx context.Context) (map[string]string, error) {
	owners := map[string]string{}
	err := s.do(ctx, func(c *minio.Client) error {
		buckets, err := c.ListBuckets(ctx)
		if err != nil {
			return fmt.Errorf("listing buckets: %w", err)
		}
		for _, b := range buckets {
			set, err := c.GetBucketTagging(ctx, b.Name)
			switch {
			case err == nil:
				owners[b.Name] = set.ToMap()[v1beta1.BucketTagOwner]
			case minio.ToErrorResponse(err).Code == "NoSuchTagSet":
				owners[b.Name] = ""
			default:
				return fmt.Errorf("reading the tags of bucket %s: %w", b.Name, err)
			}
		}
		return nil
	})
	return owners, err
}

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// bucket returns a StorageBucket for a bucket of that name on the server. It is probed at the
// shortest interval with a failure threshold of one.
func (s *s3) bucket(name string) *v1beta1.StorageBucket {
	return &v1beta1.StorageBucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1beta1.StorageBucketSpec{
			BucketName: name, Endpoint: s.endpoint(),
			CredentialsSecretRef: v1beta1.SecretReference{Name: s3Secret},
			Probe:                v1beta1.ProbeSpec{PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 1},
		},
	}
}

// managed returns a StorageBucket that creates and deletes its bucket.
func (s *s3) managed(name string) *v1beta1.StorageBucket {
	b := s.bucket(name)
	b.Spec.ManagementPolicy, b.Spec.DeletionPolicy = v1beta1.BucketManage, v1beta1.BucketDelete
	return b
}

// remove deletes the StorageBuckets and then the server. Buckets on a server that is down cannot be
// deleted, so it sets Retain.
func (s *s3) remove(ctx context.Context, g *WithT) {
	var list v1beta1.StorageBucketList
	g.Expect(shared.client.List(ctx, &list, client.InNamespace(s.namespace))).To(Succeed())
	for i := range list.Items {
		b := &list.Items[i]
		retain := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"Retain"}}`))
		g.Expect(client.IgnoreNotFound(shared.client.Patch(ctx, b.DeepCopy(), retain))).To(Succeed())
	}
	for i := range list.Items {
		remove(ctx, g, &list.Items[i])
	}
	discard(ctx, g, namespaceOf(s.namespace))
}

// ready waits for the Ready condition of a StorageBucket.
func ready(ctx context.Context, g *WithT, b *v1beta1.StorageBucket, status metav1.ConditionStatus, reason string) {
	await(ctx, g, expect.Fetched(shared.client, b), And(
		expect.HaveObservedGeneration(), expect.HaveCondition(v1beta1.ConditionReady, status, reason)))
}

func TestStorageBucket(t *testing.T) {
	server := newS3()
	watched, managed := server.bucket("watched"), server.managed("managed")
	afterwards(t, server.remove)
	testenv.Test(t, features.New("A StorageBucket of a server in the cluster").
		Assess("is Ready while its bucket can be reached by its Service", step(func(ctx context.Context, g *WithT) {
			server.start(ctx, g)
			g.Expect(server.make(ctx, "watched")).To(Succeed())
			for _, b := range []*v1beta1.StorageBucket{watched, managed} {
				g.Expect(shared.client.Create(ctx, b)).To(Succeed())
				ready(ctx, g, b, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
			}
			g.Expect(server.owners(ctx)).To(Equal(map[string]string{"watched": "", "managed": string(managed.UID)}))
		})).
		Assess("rejects endpoints in the operator's own network", step(server.refusesSurroundings)).
		Assess("reports an outage when the Service has no endpoint", step(func(ctx context.Context, g *WithT) {
			server.scale(ctx, g, 0)
			for _, b := range []*v1beta1.StorageBucket{watched, managed} {
				ready(ctx, g, b, metav1.ConditionFalse, v1beta1.ReasonEndpointUnreachable)
			}
			await(ctx, g, expect.EventsAbout(shared.client, watched), expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventBucketUnhealthy, Times: 1}))
		})).
		Assess("reports missing buckets after a loss of data, and creates a managed one again",
			step(func(ctx context.Context, g *WithT) {
				server.scale(ctx, g, 1)
				ready(ctx, g, watched, metav1.ConditionFalse, v1beta1.ReasonBucketNotFound)
				ready(ctx, g, managed, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
				g.Expect(server.owners(ctx)).To(Equal(map[string]string{"managed": string(managed.UID)}))
			})).
		Assess("is Ready again when its owner has created the bucket again", step(func(ctx context.Context, g *WithT) {
			g.Expect(server.make(ctx, "watched")).To(Succeed())
			ready(ctx, g, watched, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
			await(ctx, g, expect.EventsAbout(shared.client, watched), expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventBucketHealthy, Times: 2}))
		})).
		Assess("deletes its bucket only if it is managed", step(func(ctx context.Context, g *WithT) {
			remove(ctx, g, watched, managed)
			g.Expect(server.owners(ctx)).To(Equal(map[string]string{"watched": ""}))
		})).
		Feature())
}

// refusesSurroundings tests that the operator's own addresses, and the one by which it reaches the API
// server, are rejected, beside an S3 server in the same ranges that is not.
func (s *s3) refusesSurroundings(ctx context.Context, g *WithT) {
	leader, err := shared.leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	apiServer, err := shared.cluster.Clients().CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes",
		metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var buckets []*v1beta1.StorageBucket
	for i, endpoint := range []string{
		fmt.Sprintf("http://%s:%d", leader.Status.PodIP, probePort),
		fmt.Sprintf("http://localhost:%d", probePort),
		"https://" + apiServer.Spec.ClusterIP,
		"http://169.254.169.254",
	} {
		b := s.bucket(fmt.Sprintf("forbidden-%d", i))
		b.Spec.Endpoint = endpoint
		g.Expect(shared.client.Create(ctx, b)).To(Succeed())
		buckets = append(buckets, b)
	}
	for _, b := range buckets {
		ready(ctx, g, b, metav1.ConditionFalse, v1beta1.ReasonEndpointForbidden)
		remove(ctx, g, b)
	}
}

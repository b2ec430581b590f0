// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/s3server"
	"leasehold.dev/test/integration/internal/operator"
)

const credentials = "credentials"

var minioDefaults = minio.MakeBucketOptions{}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// place creates a namespace with the server's credentials, and deletes it after the spec without waiting.
func place(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operator.Unique("buckets")}}
	Expect(k8s.Create(ctx, ns)).To(Succeed())
	suite.DeleteNamespaceAfter(ns.Name)
	keys(ctx, ns.Name, credentials, storage.Account())
	return ns.Name
}

// keys creates a Secret with an account's keys.
func keys(ctx context.Context, namespace, name string, account s3server.Account) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: named(namespace, name), StringData: map[string]string{
		v1beta1.SecretKeyAccessKeyID: account.AccessKey, v1beta1.SecretKeySecretAccessKey: account.SecretKey,
	}}
	if account.SessionToken != "" {
		secret.StringData[v1beta1.SecretKeySessionToken] = account.SessionToken
	}
	Expect(k8s.Create(ctx, secret)).To(Succeed())
	return secret
}

// bucketOnServer creates a bucket, as its owner would, and returns its name.
func bucketOnServer(ctx context.Context) string {
	GinkgoHelper()
	name := operator.Unique("outside")
	Expect(storage.Client().MakeBucket(ctx, name, minioDefaults)).To(Succeed())
	return name
}

// through starts a proxy in front of the server.
func through(o fault.Options) *fault.Proxy {
	GinkgoHelper()
	o.Upstream = storage.Endpoint()
	proxy, err := fault.NewProxy(o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	return proxy
}

// build returns a StorageBucket without defaults, probed at the shortest interval with a failure
// threshold of one.
func build(namespace, endpoint, bucket string, with ...func(*v1beta1.StorageBucket)) *v1beta1.StorageBucket {
	b := &v1beta1.StorageBucket{
		ObjectMeta: named(namespace, operator.Unique("bucket")),
		Spec: v1beta1.StorageBucketSpec{
			BucketName:           bucket,
			Endpoint:             endpoint,
			CredentialsSecretRef: v1beta1.SecretReference{Name: credentials},
			Probe: v1beta1.ProbeSpec{PeriodSeconds: max(10, server().timeout), TimeoutSeconds: server().timeout,
				FailureThreshold: 1},
		},
	}
	for _, f := range with {
		f(b)
	}
	return b
}

func managed(policy v1beta1.BucketDeletionPolicy) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		b.Spec.ManagementPolicy, b.Spec.DeletionPolicy = v1beta1.BucketManage, policy
	}
}

func probing(period, timeout, threshold int32) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) {
		b.Spec.Probe = v1beta1.ProbeSpec{PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: threshold}
	}
}

// given creates a StorageBucket, which is deleted with its namespace. A managed one is set to
// Retain first, so that its namespace does not wait for its bucket.
func given(ctx context.Context, b *v1beta1.StorageBucket) *v1beta1.StorageBucket {
	GinkgoHelper()
	Expect(k8s.Create(ctx, b)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		retain := []byte(`{"spec":{"deletionPolicy":"Retain"}}`)
		Expect(client.IgnoreNotFound(k8s.Patch(ctx, b.DeepCopy(), client.RawPatch("application/merge-patch+json", retain)))).
			To(Succeed())
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, b))).To(Succeed())
	})
	return b
}

// annotate sets an annotation; empty removes it.
func annotate(ctx context.Context, b *v1beta1.StorageBucket, key, value string) {
	GinkgoHelper()
	operator.Change(ctx, k8s, b, func(b *v1beta1.StorageBucket) {
		if delete(b.Annotations, key); value != "" {
			metav1.SetMetaDataAnnotation(&b.ObjectMeta, key, value)
		}
	})
}

// request requests a probe.
func request(ctx context.Context, b *v1beta1.StorageBucket, value string) {
	GinkgoHelper()
	annotate(ctx, b, v1beta1.AnnotationRequestedAt, value)
}

// eventually waits for the Ready condition of the current generation.
func eventually(ctx context.Context, b *v1beta1.StorageBucket, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	Eventually(ctx, expect.Fetched(k8s, b)).WithTimeout(expect.Medium).Should(And(
		expect.HaveObservedGeneration(), expect.HaveCondition(v1beta1.ConditionReady, status, reason)))
}

// eventuallyReady waits until the bucket is Ready.
func eventuallyReady(ctx context.Context, b *v1beta1.StorageBucket) {
	GinkgoHelper()
	eventually(ctx, b, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
}

// stalled matches a status that needs a user's action.
func stalled(reason string) gomegatypes.GomegaMatcher {
	return expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, reason)
}

// reasonsOf returns the reasons of the events about a StorageBucket in the order of their first
// occurrence, with their count if above one.
func reasonsOf(b *v1beta1.StorageBucket) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := expect.EventsAbout(k8s, b)(ctx)
		slices.SortFunc(list, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		var reasons []string
		for _, e := range list {
			for range max(1, timesOf(e)) {
				reasons = append(reasons, e.Type+" "+e.Reason)
			}
		}
		return reasons, err
	}
}

func timesOf(e eventsv1.Event) int32 {
	if e.Series == nil {
		return 1
	}
	return e.Series.Count
}

// probes returns the HEAD requests for a bucket through a proxy.
func probes(proxy *fault.Proxy, bucket string) []fault.ProxiedRequest {
	return proxy.Journal().Matching(fault.Match{Methods: []string{http.MethodHead}, Path: "/" + bucket})
}

// gaps returns the times between successive requests.
func gaps(requests []fault.ProxiedRequest) []time.Duration {
	var list []time.Duration
	for i := 1; i < len(requests); i++ {
		list = append(list, requests[i].Received.Sub(requests[i-1].Received))
	}
	return list
}

// ownerOf returns the owner tag of a bucket from its server; empty if it has none.
func ownerOf(ctx context.Context, bucket string) string {
	GinkgoHelper()
	set, err := storage.Client().GetBucketTagging(ctx, bucket)
	if minio.ToErrorResponse(err).Code == "NoSuchTagSet" {
		return ""
	}
	Expect(err).NotTo(HaveOccurred())
	return set.ToMap()[v1beta1.BucketTagOwner]
}

// exists reports whether the server has the bucket.
func exists(ctx context.Context, bucket string) bool {
	GinkgoHelper()
	found, err := storage.Client().BucketExists(ctx, bucket)
	Expect(err).NotTo(HaveOccurred())
	return found
}

// objectsOf returns the keys of all current objects of a bucket.
func objectsOf(ctx context.Context, bucket string) []string {
	GinkgoHelper()
	var keys []string
	for object := range storage.Client().ListObjectsIter(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
		Expect(object.Err).NotTo(HaveOccurred())
		keys = append(keys, object.Key)
	}
	return keys
}

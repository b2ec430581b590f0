// SPDX-License-Identifier: Apache-2.0

// Package storagebucket_test tests StorageBuckets with two replicas of the shipped operator, with
// the shipped permissions and manifests, against a real S3 server behind a fault proxy.
package storagebucket_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/s3server"
	"leasehold.dev/test/integration/internal/operator"
)

// Values in the operator's environment that must never be used.
const (
	ambientKey    = "AMBIENTKEYID0000"
	ambientSecret = "ambient-secret-outside-any-secret-object"
)

var (
	suite = operator.NewSuite(operator.Options{
		Name: "storagebucket",
		Args: []string{
			// The S3 server of this suite has this address; all other addresses of this machine are
			// denied.
			"--endpoint-allow-cidr=127.0.0.1/32",
			"--probe-tick-interval=200ms",
			"--max-concurrent-probes=32", // the default
		},
		Env: []string{"AWS_ACCESS_KEY_ID=" + ambientKey, "AWS_SECRET_ACCESS_KEY=" + ambientSecret},
		// StorageBuckets have no webhooks; those of Tenants show that the operator answers.
		Answers: func() client.Object {
			return &v1beta1.Tenant{ObjectMeta: named("", "answers"), Spec: v1beta1.TenantSpec{
				Namespaces: []v1beta1.NamespaceSuffix{"dev"},
				Admins:     []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "jane"}},
			}}
		},
	})
	k8s client.Client
	// storage is the S3 server of this parallel process.
	storage *s3server.Server
)

func TestStorageBucket(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) {
	k8s = suite.Join(ctx, data)
	var err error
	storage, err = s3server.Start(context.WithoutCancel(ctx), s3server.Options{})
	Expect(err).NotTo(HaveOccurred())
})

var _ = SynchronizedAfterSuite(func() {
	if storage != nil {
		Expect(storage.Stop()).To(Succeed())
	}
}, suite.End)

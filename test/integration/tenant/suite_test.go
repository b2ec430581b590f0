// SPDX-License-Identifier: Apache-2.0

// Package tenant_test tests Tenants with two replicas of the shipped operator, with the shipped
// permissions and manifests.
package tenant_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/integration/internal/operator"
)

var (
	suite = operator.NewSuite(operator.Options{
		Name:            "tenant",
		ExistingCluster: true,
		Answers:         func() client.Object { return build("answers") },
	})
	k8s client.Client
)

func TestTenant(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) { k8s = suite.Join(ctx, data) })

var _ = SynchronizedAfterSuite(func() {}, suite.End)

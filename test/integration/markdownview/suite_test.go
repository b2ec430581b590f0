// SPDX-License-Identifier: Apache-2.0

// Package markdownview_test tests MarkdownViews with two replicas of the shipped operator, with the
// shipped permissions and manifests. There is no kubelet: a spec sets the Deployment's status when
// viewers must be available.
package markdownview_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/integration/internal/operator"
)

var (
	suite = operator.NewSuite(operator.Options{
		Name:        "markdownview",
		AuditGroups: []string{"", "apps"},
		// The period of live reads of foreign objects with a child's name.
		Args:    []string{"--sync-period=4s"},
		Answers: func() client.Object { return build("answers") },
	})
	k8s client.Client
)

func TestMarkdownView(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) { k8s = suite.Join(ctx, data) })

var _ = SynchronizedAfterSuite(func() {}, suite.End)

// Package markdownview_test drives the real operator binary, two replicas of it
// under the shipped rights and manifests, and watches MarkdownViews. There is no kubelet:
// where viewers have to become available, a spec sets the Deployment's status, as the
// Deployment controller would.
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
		// The period of reads of foreign objects of a child's name.
		Args:    []string{"--markdownview-sync-period=4s"},
		Answers: func() client.Object { return build("answers") },
	})
	k8s client.Client
)

func TestMarkdownView(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) { k8s = suite.Join(ctx, data) })

var _ = SynchronizedAfterSuite(func() {}, suite.End)

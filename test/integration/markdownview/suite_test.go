// Package markdownview_test drives the real operator binary, two replicas of it
// under the shipped rights and manifests, and watches what becomes of
// MarkdownViews. There is no kubelet here: where viewers have to come up, a spec
// says so in the Deployment's status, as the Deployment controller would.
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
		// What is in the way of a view is asked for as often as this.
		Args:    []string{"--markdownview-sync-period=4s"},
		Answers: func() client.Object { return build("answers") },
	})
	k8s client.Client
)

func TestMarkdownView(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) { k8s = suite.Join(ctx, data) })

var _ = SynchronizedAfterSuite(func() {}, suite.End)

// SPDX-License-Identifier: Apache-2.0

// Package continuity_test tests objects that outlive a cluster or a version of the API: a backup
// restored into a new cluster by the commands of docs/operations.md, and objects stored in one
// version and read in another. Each spec has its own control planes.
package continuity_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/integration/internal/operator"
)

func TestContinuity(t *testing.T) { newSuite().Run(t) }

// newSuite describes a cluster with an operator that may reach S3 servers on this machine.
func newSuite() *operator.Suite {
	return operator.NewSuite(operator.Options{
		Name:    "continuity",
		Args:    []string{"--endpoint-allow-cidr=127.0.0.1/32", "--probe-tick-interval=200ms"},
		Answers: func() client.Object { return newTenant("answers") },
	})
}

// start starts a cluster with the operator. It is stopped at the end of the spec, if not before.
func start(ctx SpecContext) (suite *operator.Suite, stop func(SpecContext)) {
	GinkgoHelper()
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		Skip("needs clusters of its own")
	}
	suite = newSuite()
	stopped := false
	stop = func(ctx SpecContext) {
		if !stopped {
			stopped = true
			suite.End(ctx)
		}
	}
	DeferCleanup(stop)
	suite.Join(ctx, suite.Start(ctx))
	suite.NeedsControllers()
	return suite, stop
}

func newTenant(name string) *v1beta1.Tenant {
	return &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.TenantSpec{
		Namespaces: []v1beta1.NamespaceSuffix{"dev"},
		Admins:     []v1beta1.Subject{{Kind: rbacv1.UserKind, Name: name + "-admin"}},
	}}
}

// runDocumented runs a block of a document's shell commands, after the sentence that ends with the
// title, as an administrator of the cluster.
func runDocumented(ctx context.Context, suite *operator.Suite, document, title, dir string) {
	GinkgoHelper()
	if _, err := exec.LookPath("jq"); err != nil && os.Getenv("CI") == "" {
		Skip("needs jq, as the documented commands do")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", document))
	Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?s)" + regexp.QuoteMeta(title) + "\n\n```\n(.*?)```").FindSubmatch(text)
	Expect(block).NotTo(BeNil(), "%s has no commands under %q", document, title)
	kubectl, kubeconfig := suite.KubectlPath()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", string(block[1]))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", strings.TrimSpace(string(block[1])), out)
}

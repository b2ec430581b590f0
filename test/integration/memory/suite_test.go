// SPDX-License-Identifier: Apache-2.0

// Package memory_test measures the memory of the operator's replicas that users can cause. `make
// test` uses few views; MEMORY_VIEWS sets the number of the goal.
package memory_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/integration/internal/operator"
)

var (
	suite = operator.NewSuite(operator.Options{
		Name: "memory",
		// 1,000 views have 1 GB of contents, which each new version stores again.
		EtcdArgs: map[string][]string{"quota-backend-bytes": {strconv.Itoa(20 << 30)}},
		// The shipped times: under thousands of large requests a busy API server does not renew a
		// shorter Lease in time.
		Args: []string{"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s",
			"--leader-elect-retry-period=2s"},
		Controllers: append(slices.Clone(env.DefaultControllers), "resourcequota-controller"),
		Answers:     func() client.Object { return view("answers", 1) },
	})
	k8s client.Client
)

func TestMemory(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) { k8s = suite.Join(ctx, data) })

var _ = SynchronizedAfterSuite(func() {}, suite.End)

// view returns a view of files with 220 KiB each.
func view(name string, files int) *v1beta1.MarkdownView {
	v := &v1beta1.MarkdownView{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	v.Spec.Markdowns = map[string]v1beta1.MarkdownText{}
	contents := ""
	for i := range files {
		contents += fmt.Sprintf("- [%d](%d.md)\n", i+1, i+1)
		v.Spec.Markdowns[fmt.Sprintf("%d.md", i+1)] = v1beta1.MarkdownText(strings.Repeat("0123456789abcdef", 220<<6))
	}
	v.Spec.Markdowns["SUMMARY.md"] = v1beta1.MarkdownText(contents)
	return v
}

// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// The alerts and the dashboard are tested against this list, so it has to equal the metrics of the
// shipped binary. It is rewritten by
//
//	go test ./test/integration/storagebucket -ginkgo.focus 'exposes the metrics' -update
var (
	metricsList = filepath.Join("..", "..", "..", "hack", "monitoring", "testdata", "metrics.golden.yaml")
	update      = flag.Bool("update", false, "rewrite the list of metrics")
)

var _ = Describe("The operator", func() {
	It("exposes the metrics that alerts and dashboard are made of", Serial, func(ctx SpecContext) {
		suite.NeedsProcesses()
		// One object of each kind, and a successful and a failed probe.
		namespace := place(ctx)
		b := given(ctx, build(namespace, storage.Endpoint(), bucketOnServer(ctx)))
		eventuallyReady(ctx, b)
		eventually(ctx, given(ctx, build(namespace, storage.Endpoint(), operator.Unique("nowhere"))), "False",
			v1beta1.ReasonBucketNotFound)
		view := &v1beta1.MarkdownView{ObjectMeta: named(namespace, operator.Unique("view")), Spec: v1beta1.MarkdownViewSpec{
			Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "- [One](one.md)\n", "one.md": "# One\n"},
		}}
		Expect(k8s.Create(ctx, view)).To(Succeed())
		tenant := &v1beta1.Tenant{ObjectMeta: named("", operator.Unique("metrics")), Spec: v1beta1.TenantSpec{
			Namespaces: []v1beta1.NamespaceSuffix{"dev"},
			Admins:     []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "jane"}},
		}}
		Expect(k8s.Create(ctx, tenant)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, tenant))).To(Succeed()) })

		if *update {
			writeMetricsList(ctx)
		}
		text, err := os.ReadFile(metricsList)
		Expect(err).NotTo(HaveOccurred())
		var listed []operator.Family
		Expect(yaml.UnmarshalStrict(text, &listed)).To(Succeed())
		Expect(listed).NotTo(BeEmpty())
		Eventually(func(g Gomega) {
			exposed := suite.Families(ctx)
			for _, family := range listed {
				g.Expect(slices.ContainsFunc(exposed, family.Within)).To(BeTrue(), "%+v is listed and not exposed", family)
			}
			for _, family := range exposed {
				known := slices.ContainsFunc(listed, func(l operator.Family) bool { return l.Name == family.Name })
				g.Expect(known || !strings.HasPrefix(family.Name, "leasehold_")).To(BeTrue(),
					"%+v is exposed and not listed", family)
			}
		}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())

		By("removing the series of a deleted object")
		for series, o := range map[string]client.Object{
			fmt.Sprintf(`leasehold_storagebucket_up{name=%q,namespace=%q}`, b.Name, namespace):          b,
			fmt.Sprintf(`leasehold_markdownview_available{name=%q,namespace=%q}`, view.Name, namespace): view,
			fmt.Sprintf(`leasehold_tenant_namespaces{tenant=%q}`, tenant.Name):                          tenant,
		} {
			Eventually(ctx, suite.HasMetric).WithArguments(series).Should(BeTrue(), series)
			Expect(k8s.Delete(ctx, o)).To(Succeed())
			Eventually(ctx, suite.HasMetric).WithArguments(series).WithTimeout(expect.Medium).Should(BeFalse(), series)
		}
	}, SpecTimeout(expect.Long))
})

// writeMetricsList waits for the metrics that appear last: those of each kind, after its first
// reconcile, and those of the webhooks.
func writeMetricsList(ctx context.Context) {
	GinkgoHelper()
	var families []operator.Family
	Eventually(func(g Gomega) {
		families = suite.Families(ctx)
		g.Expect(families).To(ContainElements(
			HaveField("Name", "leasehold_markdownview_available"),
			HaveField("Name", "leasehold_tenant_namespaces"),
			HaveField("Name", "leasehold_storagebucket_up"),
			And(HaveField("Name", "controller_runtime_webhook_latency_seconds"),
				HaveField("Values", HaveKeyWithValue("webhook", HaveLen(3)))),
		))
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	list, err := yaml.Marshal(families)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(metricsList, list, 0o644)).To(Succeed())
}

// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// largest returns a view of quotation marks that admission accepts with about 1000 bytes to spare.
// Each takes 2 bytes as JSON.
func largest(name string) *v1beta1.MarkdownView {
	v := build(name)
	v.Spec.Markdowns = files{"SUMMARY.md": "", "a.md": "", "b.md": "", "c.md": ""}
	text, err := json.Marshal(v)
	Expect(err).NotTo(HaveOccurred())
	const metadata = 1000 // added by the API server: the UID, managed fields
	n := (v1beta1.MaxMarkdownViewBytes - len(text) - metadata) / 2
	for name := range v.Spec.Markdowns {
		part := min(n, 262144)
		v.Spec.Markdowns[name] = v1beta1.MarkdownText(strings.Repeat(`"`, part))
		n -= part
	}
	return v
}

var _ = Describe("The stored size of a MarkdownView", func() {
	It("leaves space for every status", func(ctx SpecContext) {
		v := largest(unique("largest"))
		Eventually(func() error { // on a busy machine the webhook may not receive such a body in time
			return k8s.Create(ctx, v)
		}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, v)).To(Succeed()) })
		eventuallyObserved(ctx, v)
		By("refusing an annotation that uses the space")
		annotated := v.DeepCopy()
		annotated.Annotations = map[string]string{"example.com/a": strings.Repeat("<", 10000)}
		Eventually(func() error {
			return k8s.Patch(ctx, annotated.DeepCopy(), client.MergeFrom(v))
		}).WithContext(ctx).WithTimeout(expect.Medium).Should(MatchError(ContainSubstring("shorten the annotations")))
		By("scaling, which calls no webhook")
		Expect(suite.Kubectl(ctx, "scale", "markdownview/"+v.Name, "-n", v.Namespace, "--replicas=2")).NotTo(BeEmpty())
		eventuallyObserved(ctx, v)

	})

	It("is that of the text, and each character is served", func(ctx SpecContext) {
		odd := files{
			"SUMMARY.md": "- \"a\": 'b' # \\u0041\n--- !!x &a *a\n%TAG\n", // special characters of YAML
			"control.md": "a\x00\x01\x1b\x1fb",
			"order.md":   "\uFEFFa\uFEFFb",
			"lines.md":   "a\u2028\u2029b\u00a0",
			"planes.md":  "a\ufffd\U0001FFFE\U0001F600\U0010FFFFb",
			"blanks.md":  "a  \n\tb \r\n \n",
		}
		v := given(ctx, build(unique("odd"), showing(odd)))
		eventuallyObserved(ctx, v)
		Expect(v).To(expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse))
		stored := configMapOf(v)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		for name, text := range odd {
			Expect(stored.Data).To(HaveKeyWithValue(name, string(text)))
		}
	})
})

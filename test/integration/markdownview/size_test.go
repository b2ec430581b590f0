package markdownview_test

import (
	"encoding/json"
	"sort"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// filled returns files with n times the text, in parts that the schema allows.
func filled(text string, n int) files {
	f := files{"SUMMARY.md": ""}
	for _, name := range []string{"a.md", "b.md", "c.md", "d.md"} {
		part := min(n, 262144/len([]rune(text)))
		f[name] = v1beta1.MarkdownText(strings.Repeat(text, part))
		n -= part
	}
	Expect(n).To(BeZero())
	return f
}

// largest returns a view of quotation marks that admission accepts with about 1000 bytes to spare.
func largest(name string) *v1beta1.MarkdownView {
	v := build(name)
	text, err := json.Marshal(v)
	Expect(err).NotTo(HaveOccurred())
	const metadata = 1000 // that the API server adds: the UID, managed fields
	v.Spec.Markdowns = filled(`"`, (v1beta1.MaxMarkdownViewBytes-len(text)-metadata)/2)
	return v
}

var _ = Describe("The stored size of a MarkdownView", func() {
	DescribeTable("is refused where it leaves no room for a status",
		func(ctx SpecContext, text string, n int) {
			v := build(unique("large"), showing(filled(text, n)))
			Expect(k8s.Create(ctx, v)).To(MatchError(And(
				ContainSubstring("denied the request"), ContainSubstring("must be at most 1507328 bytes as JSON"))))
			Expect(reading(v)(ctx)).To(expect.BeGone())
			By("refusing the same as an update")
			v = given(ctx, build(unique("large")))
			eventuallyObserved(ctx, v)
			v.Spec.Markdowns = filled(text, n)
			Expect(k8s.Update(ctx, v)).To(MatchError(ContainSubstring("must be at most 1507328 bytes as JSON")))
		},
		Entry("quotation marks", `"`, 786000),
		Entry("backslashes", `\`, 786000),
		Entry("line breaks", "\n", 786000),
		Entry("angle brackets", "<", 262000),
		Entry("ampersands", "&", 262000),
		Entry("control characters", "\x01", 262000),
		Entry("line separators", "\u2028", 262000),
	)

	It("counts metadata, and leaves room for every status", func(ctx SpecContext) {
		v := givenReady(ctx, largest(unique("largest")))
		By("refusing an annotation that takes the room")
		annotated := v.DeepCopy()
		annotated.Annotations = map[string]string{"example.com/a": strings.Repeat("<", 10000)}
		Expect(k8s.Patch(ctx, annotated, client.MergeFrom(v))).To(MatchError(ContainSubstring("shorten the annotations")))
		By("scaling, which no webhook sees")
		Expect(suite.Kubectl(ctx, "scale", "markdownview/"+v.Name, "-n", v.Namespace, "--replicas=2")).NotTo(BeEmpty())
		eventuallyReady(ctx, v)
		By("shrinking")
		change(ctx, v, showing(files{"SUMMARY.md": ""}))
		eventuallyReady(ctx, v)
	})

	It("is reported if it leaves no room, and the status is whole again when there is room", func(ctx SpecContext) {
		v := given(ctx, largest(unique("full")))
		eventuallyObserved(ctx, v)
		By("filling the object to the limit of etcd by a condition of another client")
		// The largest message that is stored.
		most := sort.Search(32768, func(n int) bool {
			err := fill(ctx, v, n)
			Expect(err == nil || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown).To(BeTrue(), "%v", err)
			return err != nil
		}) - 1
		Expect(most).To(BeNumerically(">", 5000), "the room must be that of some kilobytes")
		Expect(fill(ctx, v, most)).To(Succeed())
		rollOut(ctx, v)
		Eventually(ctx, eventsAbout(v)).WithTimeout(expect.Medium).Should(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventTooLarge}))
		Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
	})

	DescribeTable("is that of the text, of which each character arrives",
		func(ctx SpecContext, text string) {
			v := given(ctx, build(unique("odd"), showing(files{"SUMMARY.md": v1beta1.MarkdownText(text)})))
			eventuallyObserved(ctx, v)
			Expect(v).To(expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse))
			Expect(fetched(configMapOf(v))(ctx)).To(HaveField("Data", HaveKeyWithValue("SUMMARY.md", text)))
		},
		Entry("C0 controls", "a\x00\x01\x1b\x1fb"),
		Entry("byte order marks", "\uFEFFa\uFEFFb"),
		Entry("line separators", "a\u2028\u2029b\u00a0"),
		Entry("the last characters of planes", "a\ufffd\U0001FFFE\U0001F600\U0010FFFFb"),
		Entry("white space at the end of lines", "a  \n\tb \r\n \n"),
		Entry("what YAML reads in its own way", "- \"a\": 'b' # \\u0041\n--- !!x &a *a\n%TAG\n"),
	)

	DescribeTable("does not matter for characters that cannot be applied",
		func(ctx SpecContext, text, name string) {
			Expect(k8s.Create(ctx, build(unique("odd"), showing(files{"SUMMARY.md": v1beta1.MarkdownText(text)})))).
				To(MatchError(And(ContainSubstring("spec.markdowns[SUMMARY.md]"), ContainSubstring(name))))
			Expect(k8s.Create(ctx, build(unique("odd"), func(v *v1beta1.MarkdownView) {
				v.Spec.ViewerArgs = []v1beta1.ViewerArg{"serve", v1beta1.ViewerArg(text)}
			}))).To(MatchError(And(ContainSubstring("spec.viewerArgs[1]"), ContainSubstring(name))))
		},
		Entry("delete", "a\x7fb", "U+007F"),
		Entry("a C1 control", "it\u00e2\u0080\u0099s", "U+0080"),
		Entry("next line, which YAML folds into a space", "a\u0085b", "U+0085"),
		Entry("not a character", "a\uFFFFb", "U+FFFF"),
	)
})

// fill writes a condition of n characters of 6 bytes beside those of the operator.
func fill(ctx SpecContext, v *v1beta1.MarkdownView, n int) error {
	filled := v.DeepCopy()
	filled.Status.Conditions = append(filled.Status.Conditions, metav1.Condition{Type: "Filler",
		Status: metav1.ConditionTrue, Reason: "Filled", Message: strings.Repeat("<", n),
		LastTransitionTime: v.CreationTimestamp})
	return k8s.Status().Patch(ctx, filled, client.MergeFrom(v), client.FieldOwner("filler"))
}

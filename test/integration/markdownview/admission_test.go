// SPDX-License-Identifier: Apache-2.0

package markdownview_test

import (
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// spec is a view's spec as a user writes it, valid or not.
type spec = map[string]any

func typed(name string, s spec) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "MarkdownView",
		"metadata": map[string]any{"namespace": space, "name": name}, "spec": s}}
}

func good(with spec) spec {
	s := spec{"markdowns": map[string]any{"SUMMARY.md": "x"}}
	maps.Copy(s, with)
	return s
}

// beside returns a spec with one more file.
func beside(name string, content any) spec {
	return good(spec{"markdowns": map[string]any{"SUMMARY.md": "x", name: content}})
}

// The golden files of config/ test the limits of the schema, and those of the webhook its responses.
var _ = Describe("Admission of a MarkdownView", func() {
	DescribeTable("refuses what is wrong with a message that names the change",
		func(ctx SpecContext, name string, s spec, want string) {
			err := k8s.Create(ctx, typed(name, s))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "a mistake of the user's: %v", err)
			Expect(err).To(MatchError(ContainSubstring(want)))
			Expect(reading(typed(name, nil))(ctx)).To(expect.BeGone())
		},
		Entry("empty markdowns", "empty", spec{"markdowns": map[string]any{}}, "should have at least 1 properties"),
		Entry("no SUMMARY.md", "bare", spec{"markdowns": map[string]any{"a.md": "x"}}, "markdowns must contain SUMMARY.md"),
		Entry("a name of 57 letters", strings.Repeat("a", 57), good(nil), "metadata.name must be at most 56 characters long"),
		Entry("a name with a dot", "a.b", good(nil), "consist of lower case letters, digits and '-'"),
	)

	It("refuses file names that lead to another folder, or that a ConfigMap rejects", func(ctx SpecContext) {
		for _, name := range []string{"../x.md", "/etc/x.md", "..data", ".x.md", "a/b.md", "", "a\n.md", "a.md\n", "a\x00.md",
			`a\b.md`, "{{.}}.md", "é.md", "a.html", strings.Repeat("a", 251) + ".md"} {
			Expect(k8s.Create(ctx, typed(unique("bad"), beside(name, "x")))).To(
				MatchError(ContainSubstring("each name in markdowns must be")), "%q", name)
		}
	})

	It("reports all that is wrong at once", func(ctx SpecContext) {
		// The schema is checked first, then its rules, then the webhook; each reports all its errors.
		err := k8s.Create(ctx, typed(unique("all"),
			good(spec{"replicas": int64(9), "viewerImage": strings.Repeat("a", 513)})))
		Expect(err).To(MatchError(And(ContainSubstring("spec.replicas"), ContainSubstring("spec.viewerImage"))))
		err = k8s.Create(ctx, typed("a.b", beside("a/b.md", "x")))
		Expect(err).To(MatchError(And(ContainSubstring("spec.markdowns"), ContainSubstring("metadata.name must be"))))
		err = k8s.Create(ctx, typed(unique("all"), spec{"markdowns": map[string]any{"a.md": "x"}, "viewerImage": "A:b"}))
		Expect(err).To(MatchError(And(ContainSubstring("denied the request"),
			ContainSubstring("markdowns must contain SUMMARY.md"), ContainSubstring("the name of an image must look like"))))
	})

	It("accepts a name of 56 letters, and all its children fit", func(ctx SpecContext) {
		name := unique("long") + "-"
		v := given(ctx, build(name+strings.Repeat("a", 56-len(name))))
		eventuallyObserved(ctx, v)
		Expect(serviceOf(v).Name).To(HaveLen(63))
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(expect.BeControlledBy(v))
		}
	})
})

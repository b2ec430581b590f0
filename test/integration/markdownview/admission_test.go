package markdownview_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// spec is a view's spec as a user types it, right or wrong.
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

// beside is a spec with one more file.
func beside(name string, content any) spec {
	return good(spec{"markdowns": map[string]any{"SUMMARY.md": "x", name: content}})
}

// ofSize is a view whose names and contents have n bytes.
func ofSize(n int) files {
	f := files{"SUMMARY.md": "", "a.md": "", "b.md": "", "c.md": "", "d.md": ""}
	for name := range f {
		n -= len(name)
	}
	for _, name := range []string{"a.md", "b.md", "c.md", "d.md"} {
		part := min(n, 262144)
		f[name] = v1beta1.MarkdownText(strings.Repeat("x", part))
		n -= part
	}
	return f
}

var _ = Describe("Admission of a MarkdownView", func() {
	DescribeTable("refuses what is wrong and says what to change",
		func(ctx SpecContext, name string, s spec, want string) {
			if name == "" {
				name = unique("bad")
			}
			err := k8s.Create(ctx, typed(name, s))
			Expect(err).To(HaveOccurred())
			Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(),
				"a mistake of the user's must be told as one: %v", err)
			Expect(err.Error()).To(ContainSubstring(want))
			Expect(reading(typed(name, nil))(ctx)).To(expect.BeGone())
		},
		Entry("no spec", "", nil, "spec"),
		Entry("no markdowns", "", spec{}, "spec.markdowns: Required value"),
		Entry("empty markdowns", "", spec{"markdowns": map[string]any{}}, "should have at least 1 properties"),
		Entry("no SUMMARY.md", "", spec{"markdowns": map[string]any{"a.md": "x"}}, "markdowns must have SUMMARY.md."),
		Entry("SUMMARY.md in other letters", "", spec{"markdowns": map[string]any{"Summary.md": "x"}},
			"markdowns must have SUMMARY.md."),
		Entry("129 files", "", good(spec{"markdowns": func() map[string]any {
			m := map[string]any{"SUMMARY.md": "x"}
			for i := range 128 {
				m[fmt.Sprintf("f%d.md", i)] = ""
			}
			return m
		}()}), "must have at most 128 items"),
		Entry("a way up", "", beside("../x.md", "x"), "each name in markdowns must be"),
		Entry("an absolute path", "", beside("/etc/x.md", "x"), "each name in markdowns must be"),
		Entry("the volume's own link", "", beside("..data", "x"), "each name in markdowns must be"),
		Entry("a hidden file", "", beside(".x.md", "x"), "each name in markdowns must be"),
		Entry("a folder", "", beside("a/b.md", "x"), "each name in markdowns must be"),
		Entry("no name", "", beside("", "x"), "each name in markdowns must be"),
		Entry("a line break", "", beside("a\n.md", "x"), "each name in markdowns must be"),
		Entry("a name with a line break after it", "", beside("a.md\n", "x"), "each name in markdowns must be"),
		Entry("a zero byte", "", beside("a\x00.md", "x"), "each name in markdowns must be"),
		Entry("a backslash", "", beside(`a\b.md`, "x"), "each name in markdowns must be"),
		Entry("a template", "", beside("{{.}}.md", "x"), "each name in markdowns must be"),
		Entry("a letter beyond ASCII", "", beside("é.md", "x"), "each name in markdowns must be"),
		Entry("another ending", "", beside("a.html", "x"), "each name in markdowns must be"),
		Entry("a name of 254 letters", "", beside(strings.Repeat("a", 251)+".md", "x"), "each name in markdowns must be"),
		Entry("a file of 262145 letters", "", beside("a.md", strings.Repeat("x", 262145)), "may not be more than 262144"),
		Entry("a number for content", "", beside("a.md", int64(1)), "must be of type string"),
		Entry("a list for content", "", good(spec{"markdowns": []any{"SUMMARY.md"}}), "must be of type object"),
		Entry("6 replicas", "", good(spec{"replicas": int64(6)}), "should be less than or equal to 5"),
		Entry("0 replicas", "", good(spec{"replicas": int64(0)}), "should be greater than or equal to 1"),
		Entry("half a replica", "", good(spec{"replicas": 1.5}), "must be of type int32"),
		Entry("an image of no name", "", good(spec{"viewerImage": ":v1"}), "the name of an image must be like"),
		Entry("an image with a space", "", good(spec{"viewerImage": "a b"}), "the name of an image must be like"),
		Entry("an image in capitals", "", good(spec{"viewerImage": "Viewer:v1"}), "the name of an image must be like"),
		Entry("an image with half a digest", "", good(spec{"viewerImage": "viewer@sha256:abc"}),
			"the name of an image must be like"),
		Entry("an image of 513 letters", "", good(spec{"viewerImage": strings.Repeat("a", 513)}), "may not be more than 512"),
		Entry("33 arguments", "", good(spec{"viewerArgs": slices.Repeat([]any{"x"}, 33)}), "must have at most 32 items"),
		Entry("a name of 57 letters", strings.Repeat("a", 57), good(nil), "metadata.name must be at most 56 characters long"),
		Entry("a name with a dot", "a.b", good(nil),
			"metadata.name must be at most 56 characters long, consist of lower case letters, digits and '-'"),
	)

	It("tells all that is wrong at once", func(ctx SpecContext) {
		// The schema comes first, then its rules, then the webhook; each reports all errors.
		err := k8s.Create(ctx, typed(unique("all"),
			good(spec{"replicas": int64(9), "viewerImage": strings.Repeat("a", 513)})))
		Expect(err).To(MatchError(And(ContainSubstring("spec.replicas"), ContainSubstring("spec.viewerImage"))))
		err = k8s.Create(ctx, typed("a.b", beside("a/b.md", "x")))
		Expect(err).To(MatchError(And(ContainSubstring("spec.markdowns"), ContainSubstring("metadata.name must be"))))
		contents := map[string]any{"a.md": strings.Repeat("x", 262144), "b.md": strings.Repeat("x", 262144),
			"c.md": strings.Repeat("x", 262144), "d.md": strings.Repeat("x", 262144)}
		err = k8s.Create(ctx, typed(unique("all"), spec{"markdowns": contents, "viewerImage": "A:b"}))
		Expect(err).To(MatchError(And(
			ContainSubstring("denied the request"), ContainSubstring("markdowns must have SUMMARY.md."),
			ContainSubstring("at most 921600 bytes (900 KiB)"), ContainSubstring("the name of an image must be like"))))
	})

	It("takes a name of 56 letters, and all its children fit", func(ctx SpecContext) {
		name := unique("long") + "-"
		v := givenReady(ctx, build(name+strings.Repeat("a", 56-len(name))))
		Expect(v.Name).To(HaveLen(56))
		Expect(serviceOf(v).Name).To(HaveLen(63))
		for _, child := range childrenOf(v) {
			Expect(fetched(child)(ctx)).To(expect.BeControlledBy(v))
		}
	})

	It("takes 900 KiB, and not one byte more", func(ctx SpecContext) {
		v := given(ctx, build(unique("full"), showing(ofSize(v1beta1.MaxMarkdownBytes))))
		eventuallyObserved(ctx, v)
		Expect(v).To(expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionFalse))
		configMap := configMapOf(v)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(configMap), configMap)).To(Succeed())
		size := 0
		for name, content := range configMap.Data {
			size += len(name) + len(content)
		}
		Expect(size).To(Equal(900 << 10))

		err := k8s.Create(ctx, build(unique("over"), showing(ofSize(v1beta1.MaxMarkdownBytes+1))))
		Expect(err).To(MatchError(ContainSubstring(
			"all file names and contents together must be at most 921600 bytes (900 KiB)")))
		By("counting bytes, not letters")
		err = k8s.Create(ctx, build(unique("over"), showing(files{
			"SUMMARY.md": "x", "a.md": v1beta1.MarkdownText(strings.Repeat("é", 262144)),
			"b.md": v1beta1.MarkdownText(strings.Repeat("é", 262144))})))
		Expect(err).To(MatchError(ContainSubstring("at most 921600 bytes")))
	})

	It("stores no image where none is named, on creation and on update, and the viewer is the default",
		func(ctx SpecContext) {
			v := given(ctx, build(unique("default")))
			runs := func(stored, run string) {
				GinkgoHelper()
				Expect(fetched(v)(ctx)).To(HaveField("Spec.ViewerImage", stored))
				Eventually(ctx, fetched(deploymentOf(v))).WithTimeout(expect.Medium).Should(
					HaveField("Spec.Template.Spec.Containers", ConsistOf(HaveField("Image", run))))
				Eventually(ctx, fetched(v)).WithTimeout(expect.Medium).Should(HaveField("Status.ViewerImage", run))
			}
			eventuallyObserved(ctx, v)
			Expect(v.Spec.Replicas).To(BeEquivalentTo(1))
			runs("", "leasehold-viewer:dev")
			change(ctx, v, image("example.com/own:v1"))
			runs("example.com/own:v1", "example.com/own:v1")
			change(ctx, v, image(""))
			runs("", "leasehold-viewer:dev")
		})

	DescribeTable("warns of what is probably not meant",
		func(ctx SpecContext, v func() *v1beta1.MarkdownView, want ...any) {
			c, warnings := suite.WarnedClient()
			Expect(c.Create(ctx, v(), client.DryRunAll)).To(Succeed())
			Expect(warnings.All()).To(ConsistOf(want...))
		},
		Entry("not of a view that is well", func() *v1beta1.MarkdownView { return build(unique("warn")) }),
		Entry("a link that leads nowhere", func() *v1beta1.MarkdownView {
			return build(unique("warn"), showing(files{"SUMMARY.md": "- [A](a.md)\n- [B](b.md)\n", "a.md": ""}))
		}, `SUMMARY.md links to files that are not in markdowns: "b.md"`),
		Entry("a file that nothing leads to", func() *v1beta1.MarkdownView {
			return build(unique("warn"), showing(files{"SUMMARY.md": "- [A](a.md)\n", "a.md": "[b](b.md)", "b.md": ""}))
		}, `SUMMARY.md has no link to: "b.md"`),
		Entry("many files, of which it names some", func() *v1beta1.MarkdownView {
			f := files{"SUMMARY.md": "x"}
			for i := range 99 {
				f[fmt.Sprintf("%s-%02d.md", strings.Repeat("n", 200), i)] = ""
			}
			return build(unique("warn"), showing(f))
		}, And(HavePrefix("SUMMARY.md has no link to: "), HaveSuffix("and 95 more"))),
		Entry("the tag latest", func() *v1beta1.MarkdownView { return build(unique("warn"), image("example.com/a:latest")) },
			HavePrefix("viewerImage example.com/a:latest has the tag latest, so ")),
		Entry("no tag", func() *v1beta1.MarkdownView { return build(unique("warn"), image("localhost:5000/a")) },
			HavePrefix("viewerImage localhost:5000/a has no tag and no digest, so ")),
		Entry("not of a digest", func() *v1beta1.MarkdownView {
			return build(unique("warn"), image("a@sha256:"+strings.Repeat("0", 64)))
		}),
	)

	It("warns on an update of what the update changes, and of nothing else", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("rewarn"), image("example.com/a:latest"))) // from here on only this spec writes it
		c, warnings := suite.WarnedClient()
		v.Labels = map[string]string{"example.com/a": "b"}
		Expect(c.Update(ctx, v, client.DryRunAll)).To(Succeed())
		Expect(warnings.All()).To(BeEmpty())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(v), v)).To(Succeed())
		v.Spec.Markdowns["two.md"] = ""
		Expect(c.Update(ctx, v, client.DryRunAll)).To(Succeed())
		Expect(warnings.All()).To(HaveLen(2))
	})
})

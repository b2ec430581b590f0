package markdownview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"leasehold.dev/api/v1beta1"
)

// TestAdmissionGolden compares the webhooks' responses to creations with testdata/admission.txt.
func TestAdmissionGolden(t *testing.T) {
	many, odd := files{"SUMMARY.md": ""}, files{"SUMMARY.md": ""}
	for i := range 6 {
		many[fmt.Sprintf("%s%02d.md", strings.Repeat("n", 30), i)] = ""
		odd[fmt.Sprintf("%d.md", i)] = ""
	}
	delete(odd, "5.md")
	delete(odd, "4.md")
	cases := map[string]func(*v1beta1.MarkdownView){
		"valid":             func(*v1beta1.MarkdownView) {},
		"no files":          showing(nil),
		"no SUMMARY.md":     showing(files{"a.md": ""}),
		"a folder":          showing(files{"SUMMARY.md": "", "a/b.md": ""}),
		"the most bytes":    showing(ofSize(900 << 10)),
		"one byte more":     showing(ofSize(900<<10 + 1)),
		"too many quotes":   showing(files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat(`"`, 786_000))}),
		"a wrong encoding":  showing(files{"SUMMARY.md": "it\u00e2\u0080\u0099s"}),
		"a bad argument":    args("a", "\x7f"),
		"too many replicas": replicas(6),
		"a capital":         image("A:b"),
		"a dot":             func(v *v1beta1.MarkdownView) { v.Name = "a.b" },
		"57 letters":        func(v *v1beta1.MarkdownView) { v.Name = strings.Repeat("a", 57) },
		"all at once": func(v *v1beta1.MarkdownView) {
			v.Name, v.Spec = "a.b", v1beta1.MarkdownViewSpec{Markdowns: files{"/": ""}, Replicas: 9, ViewerImage: " "}
		},
		"missing files":       showing(files{"SUMMARY.md": "[a](a.md) [b](b.md) [a again](a.md)"}),
		"4 unlisted files":    showing(odd),
		"6 unlisted files":    showing(many),
		"a long line":         showing(files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat("x", 513))}),
		"no tag":              image("a"),
		"the tag latest":      image("a:latest"),
		"a name of 120 bytes": image(strings.Repeat("a", 113) + ":latest"),
		"a name of 121 bytes": image(strings.Repeat("a", 114) + ":latest"),
	}
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		warnings, err := (&Webhook{}).ValidateCreate(t.Context(), view(cases[name]))
		fmt.Fprintf(&got, "== %s\nerror: %v\n", name, err)
		for _, warning := range warnings {
			fmt.Fprintf(&got, "warning: %s\n", warning)
		}
	}
	golden.Assert(t, got.String(), "admission.txt")
}

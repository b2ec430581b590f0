// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

func named(name string) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Name = name }
}

func unchangedView(*v1beta1.MarkdownView)  {}
func labelled(v *v1beta1.MarkdownView)     { v.Labels = map[string]string{"a": "b"} }
func annotated(v *v1beta1.MarkdownView)    { v.Annotations = map[string]string{"a": "b"} }
func notAnnotated(v *v1beta1.MarkdownView) { v.Annotations = nil }

// both makes two changes.
func both(a, b func(*v1beta1.MarkdownView)) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { a(v); b(v) }
}

// terminating makes a change in a view that is being deleted.
func terminating(with func(*v1beta1.MarkdownView)) func(*v1beta1.MarkdownView) {
	return both(with, func(v *v1beta1.MarkdownView) { v.DeletionTimestamp = new(metav1.Now()) })
}

// reading shows a file with this text.
func reading(text v1beta1.MarkdownText) func(*v1beta1.MarkdownView) {
	return showing(files{"SUMMARY.md": "[a](a.md)", "a.md": text})
}

// unlisted shows SUMMARY.md and n other files. The format makes their names of their numbers.
func unlisted(n int, format string) func(*v1beta1.MarkdownView) {
	f := files{"SUMMARY.md": ""}
	for i := range n {
		f[fmt.Sprintf(format, i)] = ""
	}
	return showing(f)
}

// quoting makes a view need this number of bytes in etcd, nearly all for quotation marks.
func quoting(bytes int) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) {
		v.Spec.Markdowns = files{"SUMMARY.md": "[a](a.md)", "a.md": ""}
		rest := bytes - storedBytes(v)
		v.Spec.Markdowns["a.md"] = v1beta1.MarkdownText(strings.Repeat(`"`, rest/2) + strings.Repeat("x", rest%2))
	}
}

const (
	fileLimit   = 900 << 10
	storedLimit = 1507328 // 1.5 MiB without 64 KiB
)

// forged are views that the schema rejects, as a client without credentials may send them.
func forged() map[string]func(*v1beta1.MarkdownView) {
	huge := strings.Repeat("<", 1<<20)
	return map[string]func(*v1beta1.MarkdownView){
		"forged: 129 files":     unlisted(128, "a/%d"),
		"forged: a huge name":   named(huge),
		"forged: a huge image":  image(huge),
		"forged: a huge file's": showing(files{"SUMMARY.md": "", huge: ""}),
	}
}

// creations are the views of reviews of creations.
func creations() map[string]func(*v1beta1.MarkdownView) {
	cases := map[string]func(*v1beta1.MarkdownView){
		"valid": unchangedView,
		"all at once": func(v *v1beta1.MarkdownView) {
			v.Name, v.Spec = "a.b", v1beta1.MarkdownViewSpec{Markdowns: files{"/": ""}, Replicas: 9, ViewerImage: " "}
		},
		"129 files":                  unlisted(128, "a%03d.md"),
		"33 arguments":               args(make([]v1beta1.ViewerArg, 33)...),
		"128 files and 32 arguments": both(unlisted(127, "a%03d.md"), args(make([]v1beta1.ViewerArg, 32)...)),

		"files: none":          showing(nil),
		"files: no SUMMARY.md": showing(files{"a.md": ""}),
		"files: 900 KiB":       showing(ofSize(fileLimit)),
		"files: a byte more":   showing(ofSize(fileLimit + 1)),
		"files: a byte more with the names": reading(
			v1beta1.MarkdownText(strings.Repeat("x", fileLimit+1-len("SUMMARY.md[a](a.md)a.md")))),
		"files: quotation marks of the largest object": quoting(storedLimit),
		"files: quotation marks of a larger one":       quoting(storedLimit + 1),

		"text: DEL":                  reading("a\x7f"),
		"text: the first C1 control": reading("\u0080"),
		"text: the last C1 control":  reading("\u009f"),
		"text: a wrong encoding":     reading("it\u00e2\u0080\u0099s"),
		"text: U+FFFE":               reading("\ufffe"),
		"text: U+FFFF":               reading("\uffff"),
		"text: beside the forbidden": reading("~\u00a0\ufffd\ufeff\u2028\U0001FFFE\x00\x1f\t\r\n"),
		"argument: DEL":              args("a", "\x7f"),

		"replicas: none, which is one": replicas(0),
		"replicas: 5":                  replicas(5),
		"replicas: 6":                  replicas(6),
		"replicas: -1":                 replicas(-1),

		"image: none":                image(""),
		"image: a capital":           image("A:b"),
		"image: no tag":              image("a"),
		"image: a port":              image("localhost:5000/a"),
		"image: a port and a tag":    image("r.example.com:5000/a:v1"),
		"image: latest":              image("r.example.com/a:latest"),
		"image: latest, of a digest": image("a:latest@sha256:" + strings.Repeat("0", 64)),
		"image: 120 bytes":           image(strings.Repeat("a", 113) + ":latest"),
		"image: 121 bytes":           image(strings.Repeat("a", 114) + ":latest"),
	}
	maps.Copy(cases, forged())
	return cases
}

// updates are the former view and the change of reviews of updates.
func updates() map[string][2]func(*v1beta1.MarkdownView) {
	// It violates rules that are newer than it.
	bad := both(both(showing(files{"a/b": ""}), replicas(9)), image(" "))
	doubtful := both(image("a:latest"), unlisted(1, "b%d.md"))
	tooLarge := quoting(storedLimit + 2)
	cases := map[string][2]func(*v1beta1.MarkdownView){
		"bad: a label":                        {bad, labelled},
		"bad: valid replicas":                 {bad, replicas(3)},
		"bad: other invalid replicas":         {bad, replicas(8)},
		"bad: a valid image":                  {bad, image("a:1")},
		"bad: another invalid image":          {bad, image("  ")},
		"bad: valid files":                    {bad, reading("x")},
		"bad: other invalid files":            {bad, showing(files{"c/d": ""})},
		"bad: valid arguments":                {bad, args("a")},
		"bad: invalid arguments":              {bad, args("a", "b\x7f")},
		"bad: other invalid files at its end": {bad, terminating(showing(files{"c/d": ""}))},

		"warnings: the image":              {unchangedView, image("a:latest")},
		"warnings: the files":              {unchangedView, unlisted(1, "b%d.md")},
		"warnings: both":                   {unchangedView, doubtful},
		"warnings: the image, repaired":    {doubtful, image("a:1")},
		"warnings: the files, repaired":    {doubtful, reading("x")},
		"warnings: only the replicas":      {doubtful, replicas(3)},
		"warnings: only a label":           {doubtful, labelled},
		"warnings: nothing":                {doubtful, unchangedView},
		"warnings: the image, at its end":  {doubtful, terminating(image("b:latest"))},
		"size: grows to the limit":         {unchangedView, quoting(storedLimit)},
		"size: grows beyond it":            {unchangedView, quoting(storedLimit + 1)},
		"size: grows beyond it at its end": {unchangedView, terminating(quoting(storedLimit + 1))},
		"size: grows by metadata alone":    {quoting(storedLimit), annotated},
		"size: grows further":              {tooLarge, quoting(storedLimit + 3)},
		"size: stays too large":            {tooLarge, unchangedView},
		"size: shrinks, still too large":   {tooLarge, quoting(storedLimit + 1)},
		"size: loses an annotation":        {both(tooLarge, annotated), notAnnotated},
		"forged: 129 files before":         {unlisted(128, "a/%d"), reading("x")},
	}
	for name, change := range forged() {
		cases[name] = [2]func(*v1beta1.MarkdownView){unchangedView, change}
	}
	return cases
}

// TestAdmissionGolden compares the answers of the webhook with testdata/admission.txt. An answer is
// short, whatever a view has.
func TestAdmissionGolden(t *testing.T) {
	var got strings.Builder
	record := func(title string, warnings []string, err error) {
		fmt.Fprintf(&got, "== %s\nerror: %.1500v\n", title, err)
		for _, warning := range warnings {
			fmt.Fprintf(&got, "warning: %s\n", warning)
			if n := utf8.RuneCountInString(warning); n > 256 {
				t.Errorf("%s: a warning of %d characters, which the API server truncates", title, n)
			}
		}
	}
	created := creations()
	for _, name := range slices.Sorted(maps.Keys(created)) {
		warnings, err := (&Webhook{}).ValidateCreate(t.Context(), view(created[name]))
		record("create, "+name, warnings, err)
	}
	updated := updates()
	for _, name := range slices.Sorted(maps.Keys(updated)) {
		old := view(updated[name][0])
		changed := old.DeepCopy()
		updated[name][1](changed)
		warnings, err := (&Webhook{}).ValidateUpdate(t.Context(), old, changed)
		record("update, "+name, warnings, err)
	}
	golden.Assert(t, got.String(), "admission.txt")
}

package markdownview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/api/v1beta1"
)

func TestValidate(t *testing.T) {
	name := func(s string) func(*v1beta1.MarkdownView) { return func(v *v1beta1.MarkdownView) { v.Name = s } }
	beside := func(file string) func(*v1beta1.MarkdownView) { return showing(files{"SUMMARY.md": "", file: ""}) }
	reading := func(text v1beta1.MarkdownText) func(*v1beta1.MarkdownView) {
		return showing(files{"SUMMARY.md": "", "a.md": text})
	}
	for reason, tc := range map[string]struct {
		with func(*v1beta1.MarkdownView)
		want []string // the fields with errors
	}{
		"valid":           {func(*v1beta1.MarkdownView) {}, nil},
		"no files":        {showing(nil), []string{"spec.markdowns"}},
		"no SUMMARY.md":   {showing(files{"a.md": ""}), []string{"spec.markdowns"}},
		"exactly 900 KiB": {showing(ofSize(900 << 10)), nil},
		"one byte more":   {showing(ofSize(900<<10 + 1)), []string{"spec.markdowns"}},
		"the names count": {showing(files{"SUMMARY.md": "", strings.Repeat("a", 100) +
			".md": v1beta1.MarkdownText(strings.Repeat("x", 900<<10-112))}), []string{"spec.markdowns"}},
		"a parent folder":       {beside("../x.md"), []string{"spec.markdowns[../x.md]"}},
		"the volume's own link": {beside("..data"), []string{"spec.markdowns[..data]"}},
		"a folder":              {beside("a/b.md"), []string{"spec.markdowns[a/b.md]"}},
		"no name":               {beside(""), []string{"spec.markdowns[]"}},
		"a line break":          {beside("a.md\n"), []string{"spec.markdowns[a.md\n]"}},
		"a name of 253 letters": {beside(strings.Repeat("a", 250) + ".md"), nil},
		"a name of 254 letters": {beside(strings.Repeat("a", 251) + ".md"),
			[]string{"spec.markdowns[" + strings.Repeat("a", 251) + ".md]"}},
		"DEL":                             {reading("a\x7f"), []string{"spec.markdowns[a.md]"}},
		"the first C1 control":            {reading("\u0080"), []string{"spec.markdowns[a.md]"}},
		"the last C1 control":             {reading("\u009f"), []string{"spec.markdowns[a.md]"}},
		"U+FFFE":                          {reading("\ufffe"), []string{"spec.markdowns[a.md]"}},
		"U+FFFF":                          {reading("\uffff"), []string{"spec.markdowns[a.md]"}},
		"characters beside the forbidden": {reading("~\u00a0\ufffd\ufeff\u2028\U0001FFFE\x00\x1f\t\r\n"), nil},
		"DEL in an argument":              {args("a", "b\x7f"), []string{"spec.viewerArgs[1]"}},
		"no replicas, which is one":       {replicas(0), nil},
		"5 replicas":                      {replicas(5), nil},
		"6 replicas":                      {replicas(6), []string{"spec.replicas"}},
		"negative replicas":               {replicas(-1), []string{"spec.replicas"}},
		"no image, which is the default":  {image(""), nil},
		"an image in capitals":            {image("A:b"), []string{"spec.viewerImage"}},
		"an image with a digest":          {image("r.example.com:5000/a/b@sha256:" + strings.Repeat("0", 64)), nil},
		"56 letters":                      {name(strings.Repeat("a", 56)), nil},
		"57 letters":                      {name(strings.Repeat("a", 57)), []string{"metadata.name"}},
		"a dot":                           {name("a.b"), []string{"metadata.name"}},
		"a generated name":                {name(""), nil},
		"all at once": {func(v *v1beta1.MarkdownView) {
			v.Name, v.Spec = "a.b", v1beta1.MarkdownViewSpec{Markdowns: files{"/": ""}, Replicas: 9, ViewerImage: " "}
		}, []string{"metadata.name", "spec.markdowns", "spec.markdowns[/]", "spec.replicas", "spec.viewerImage"}},
	} {
		t.Run(reason, func(t *testing.T) {
			var got []string
			for _, err := range validate(view(tc.with)) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields in error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnpinned(t *testing.T) {
	for image, want := range map[string]string{
		"a":                                   "has no tag and no digest",
		"localhost:5000/a":                    "has no tag and no digest", // a port is no tag
		"a:latest":                            "has the tag latest",
		"r.example.com/a:latest":              "has the tag latest",
		"a:v1":                                "",
		"r.example.com:5000/a:v1":             "",
		"a@sha256:" + strings.Repeat("0", 64): "",
		"a:latest@sha256:" + strings.Repeat("0", 64): "", // the digest takes precedence
		"not an image": "",
	} {
		if got := unpinned(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

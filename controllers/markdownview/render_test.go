package markdownview

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1beta1"
)

// TestChildrenGolden compares the rendered children with testdata/children.yaml. A change of a
// selector there cannot be released: that of an existing Deployment is immutable.
func TestChildrenGolden(t *testing.T) {
	var got strings.Builder
	for _, v := range []*v1beta1.MarkdownView{view(), view(image(""), replicas(0), args("--title", "A"))} {
		c := render(v, contentHash(v.Spec.Markdowns), defaultImage)
		for _, child := range []any{c.configMap, c.deployment, c.service} {
			text, err := yaml.Marshal(child)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "---\n%s", text)
		}
	}
	golden.Assert(t, got.String(), "children.yaml")
}

func TestContentHash(t *testing.T) {
	base := contentHash(files{"a": "bc", "d": ""})
	for reason, other := range map[string]files{
		"content changed":                   {"a": "bd", "d": ""},
		"a file removed":                    {"a": "bc"},
		"a file added":                      {"a": "bc", "d": "", "e": ""},
		"a file renamed":                    {"a": "bc", "e": ""},
		"contents swapped":                  {"a": "", "d": "bc"},
		"a letter moved from name to text":  {"ab": "c", "d": ""},
		"a text that looks like a boundary": {"a": "bc\nd\n"},
		"a text that looks like a digest":   {"a": v1beta1.MarkdownText(strings.TrimPrefix(digest("bc"), digestMark)), "d": ""},
		"nothing":                           {},
	} {
		if contentHash(other) == base {
			t.Errorf("%s: the hash is the same", reason)
		}
	}
	if again := contentHash(files{"d": "", "a": v1beta1.MarkdownText(digest("bc"))}); again != base || len(base) != 64 {
		t.Errorf("%s and %s, want the same twice, of 64 letters", base, again)
	}
	if errs := validateText(markdownsPath, digest("bc")); len(errs) == 0 {
		t.Error("admission accepts a text that is a digest")
	}
}

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
		c := render(v, defaultImage)
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
	base := contentHash(map[string]string{"a": "bc", "d": ""})
	for reason, other := range map[string]map[string]string{
		"content changed":                   {"a": "bd", "d": ""},
		"a file removed":                    {"a": "bc"},
		"a file added":                      {"a": "bc", "d": "", "e": ""},
		"a file renamed":                    {"a": "bc", "e": ""},
		"contents swapped":                  {"a": "", "d": "bc"},
		"a letter moved from name to text":  {"ab": "c", "d": ""},
		"a text that looks like a boundary": {"a": "bc1:d0:"},
		"nothing":                           {},
	} {
		if contentHash(other) == base {
			t.Errorf("%s: the hash is the same", reason)
		}
	}
	if again := contentHash(map[string]string{"d": "", "a": "bc"}); again != base || len(base) != 64 {
		t.Errorf("%s and %s, want the same twice, of 64 letters", base, again)
	}
}

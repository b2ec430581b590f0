package compatibility

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func seeded(seed uint64) *generator {
	return &generator{rand: rand.New(rand.NewPCG(seed, 0)), corpus: map[string][]any{}}
}

func TestTheSameSeedMakesTheSameValues(t *testing.T) {
	t.Parallel()
	schema := *parse(t)
	if diff := cmp.Diff(seeded(7).value("", schema), seeded(7).value("", schema)); diff != "" {
		t.Errorf("two values of one seed: %s", diff)
	}
	if cmp.Equal(seeded(7).value("", schema), seeded(8).value("", schema)) {
		t.Error("two seeds give one value")
	}
}

func TestValuesAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	schema := *parse(t)
	for seed := range uint64(200) {
		made := seeded(seed).value("", schema).(map[string]any)["spec"].(map[string]any)
		if name := made["name"].(string); !regexp.MustCompile("^a").MatchString(name) || len(name) > 10 {
			t.Errorf("seed %d: name %q", seed, name)
		}
		if size, set := made["size"].(int64); set && (size < 1 || size > 5) {
			t.Errorf("seed %d: size %d", seed, size)
		}
		if policy, set := made["policy"]; set && policy != "Keep" && policy != "Drop" {
			t.Errorf("seed %d: policy %v", seed, policy)
		}
		if files, set := made["files"].(map[string]any); set && len(files) > 2 {
			t.Errorf("seed %d: %d files", seed, len(files))
		}
		ids := map[any]bool{}
		admins, _ := made["admins"].([]any)
		for _, admin := range admins {
			id := admin.(map[string]any)["id"]
			if ids[id] {
				t.Errorf("seed %d: two admins have id %q, which is the key of the list", seed, id)
			}
			ids[id] = true
		}
	}
}

func TestStringsMatchTheirPattern(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, `^(a|b+)c{2,3}$`, `.`, `^x.y$`, `^[^a-z]+\.md$`, `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`, ``,
	} {
		for seed := range uint64(50) {
			s := apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: pattern, MinLength: new(int64(1)), MaxLength: new(int64(63))}
			made := seeded(seed).text(s)
			if n := utf8.RuneCountInString(made); !regexp.MustCompile(pattern).MatchString(made) || n < 1 || n > 63 {
				t.Errorf("seed %d: %q for %q", seed, made, pattern)
			}
		}
	}
}

func TestAValueIsBorrowedFromAnExampleWhereOnlyAnExpressionDescribesIt(t *testing.T) {
	t.Parallel()
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"url"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"url": {Type: "string", XValidations: apiextensionsv1.ValidationRules{{Rule: "isURL(self)"}}},
	}}
	borrowed := 0
	for seed := range uint64(100) {
		g := seeded(seed)
		remember(g.corpus, map[string]any{"spec": map[string]any{"url": "https://example.com"}})
		if g.value("spec", schema).(map[string]any)["url"] == "https://example.com" {
			borrowed++
		}
	}
	if borrowed < 25 || borrowed > 75 {
		t.Errorf("%d of 100 are borrowed; about half should be", borrowed)
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	base := map[string]any{"spec": map[string]any{"a": int64(1), "l": []any{map[string]any{"k": "v"}, map[string]any{"k": "w"}}}}
	for name, test := range map[string]struct {
		head any
		want []string
	}{
		"nothing":              {map[string]any{"spec": map[string]any{"a": int64(1), "more": true, "l": []any{map[string]any{"k": "v"}, map[string]any{"k": "w"}}}}, nil},
		"a field":              {map[string]any{"spec": map[string]any{"l": []any{map[string]any{"k": "v"}, map[string]any{"k": "w"}}}}, []string{"spec.a is gone"}},
		"a field of a list":    {map[string]any{"spec": map[string]any{"a": int64(1), "l": []any{map[string]any{"k": "v"}, map[string]any{}}}}, []string{"spec.l[1].k is gone"}},
		"an element":           {map[string]any{"spec": map[string]any{"a": int64(1), "l": []any{map[string]any{"k": "v"}}}}, []string{"spec.l has 1 elements and had 2"}},
		"a value":              {map[string]any{"spec": map[string]any{"a": int64(2), "l": []any{map[string]any{"k": "v"}, map[string]any{"k": "w"}}}}, []string{"spec.a is 2 and was 1"}},
		"an object altogether": {map[string]any{"spec": "x"}, []string{"spec is x and was an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, lost("", base, test.head)); diff != "" {
				t.Error(fmt.Sprint("what is lost (-want +got):\n", diff))
			}
		})
	}
}

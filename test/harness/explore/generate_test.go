package explore

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "Write the golden files.")

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	g := NewWithT(t)
	var spec map[string]any
	g.Expect(utiljson.Unmarshal([]byte(text), &spec)).To(Succeed())
	return spec
}

func TestGenerateTricky(t *testing.T) {
	g := NewWithT(t)
	body, err := os.ReadFile("testdata/tricky.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var tricky struct {
		Schema apiextensionsv1.JSONSchemaProps `json:"schema"`
		Sample json.RawMessage                 `json:"sample"`
	}
	g.Expect(yaml.UnmarshalStrict(body, &tricky)).To(Succeed())
	compare(t, Generate(tricky.Schema, parse(t, string(tricky.Sample))))
}

// compare compares changes with a golden file.
func compare(t *testing.T, changes []Change) {
	t.Helper()
	g := NewWithT(t)
	var b strings.Builder
	for _, c := range changes {
		valid := "valid  "
		if c.Invalid {
			valid = "invalid"
		}
		fmt.Fprintf(&b, "%s %s %s = %s\n", valid, c.Field, c.ID(), text(c.Value))
	}
	path := filepath.Join("testdata", "tricky.txt")
	if *update {
		g.Expect(os.WriteFile(path, []byte(b.String()), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.String()).To(BeComparableTo(string(want)), "%s: go test -update writes it", path)
}

func TestApply(t *testing.T) {
	spec := `{"list": [{"name": "a"}, {"name": "b"}], "map": {"k/1": "v"}}`
	for name, tc := range map[string]struct {
		change Change
		want   string
	}{
		"Set": {Change{Path: []string{"new"}, At: 1, Value: int64(1)},
			`{"list": [{"name": "a"}, {"name": "b"}], "map": {"k/1": "v"}, "new": 1}`},
		"Nested": {Change{Path: []string{"list", "1", "name"}, At: 3, Value: "c"},
			`{"list": [{"name": "a"}, {"name": "c"}], "map": {"k/1": "v"}}`},
		"RemoveElement": {Change{Path: []string{"list", "0"}, At: 2, Kind: Remove},
			`{"list": [{"name": "b"}], "map": {"k/1": "v"}}`},
		"RemoveKey": {Change{Path: []string{"map", "k/1"}, At: 2, Kind: Remove},
			`{"list": [{"name": "a"}, {"name": "b"}], "map": {}}`},
		"ReplaceOuter": {Change{Path: []string{"map", "x"}, At: 1, Kind: Remove, Value: map[string]any{}},
			`{"list": [{"name": "a"}, {"name": "b"}], "map": {}}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := parse(t, spec)
			got, err := tc.change.Apply(before)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(parse(t, tc.want)))
			g.Expect(before).To(Equal(parse(t, spec)), "the spec before")
		})
	}
	for name, c := range map[string]Change{
		"NoElement": {Path: []string{"list", "7"}, At: 2, Value: "x"},
		"NoIndex":   {Path: []string{"list", "x"}, At: 2, Value: "x"},
		"NoObject":  {Path: []string{"map", "k/1", "x"}, At: 3, Value: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(c.Apply(parse(t, spec))).Error().To(HaveOccurred())
		})
	}
}

func TestMergePatch(t *testing.T) {
	g := NewWithT(t)
	got := MergePatch(parse(t, `{"a": 1, "o": {"x": 1}}`), parse(t, `{"a": 2, "b": 2, "o": {"y": 1}}`),
		parse(t, `{"c": 3}`))
	g.Expect(got).To(Equal(parse(t, `{"a": 1, "b": null, "c": null, "o": {"x": 1, "y": null}}`)))
}

func TestFitted(t *testing.T) {
	for pattern, lengths := range map[string][]int{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`: {1, 2, 63},
		`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`:   {2, 3, 63},
		`^(foo|bar)-\d{3}$`:               {7},
		``:                                {1, 40},
	} {
		s := &apiextensionsv1.JSONSchemaProps{Pattern: pattern}
		for _, n := range lengths {
			if got := fitted(s, n); len(got) != n || !isValid(s, got) {
				t.Errorf("fitted(%q, %d) = %q", pattern, n, got)
			}
		}
	}
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	changes := []Change{{Path: []string{"a b$"}, Kind: "max"}, {Path: []string{"c"}, Kind: Remove}}
	g.Expect(changes[0].ID()).To(Equal("/a%20b%24:max"))
	s := Sequence{Changes: slices.Clone(changes), Crash: true}
	g.Expect(Parse(s.String(), changes)).To(Equal(s))
	g.Expect(Parse("/d:max", changes)).Error().To(MatchError(ContainSubstring("/d:max")))
	g.Expect(Parse("crash", changes)).Error().To(HaveOccurred())
}

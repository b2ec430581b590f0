package main

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const inVariant = ".Values.variant"

func decoded(t *testing.T, text string) []chartObject {
	t.Helper()
	objects, err := decode([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// merged returns the templates of a base and its variant, each a ConfigMap with these lines.
func merged(t *testing.T, base, variant string) (string, error) {
	t.Helper()
	const head = "kind: ConfigMap\nmetadata: {name: a}\n"
	objects, err := merge(decoded(t, head+base), decoded(t, head+variant), ".Values.base", inVariant)
	if err != nil {
		return "", err
	}
	_, text, _ := strings.Cut(objects[0].template(), "  name: a\n")
	return text, nil
}

func TestMergeAdds(t *testing.T) {
	for name, tc := range map[string]struct{ base, variant, want string }{
		"nothing":                  {"x: {k: 1}", "x: {k: 1}", "x:\n  k: 1\n"},
		"a key that reads as bool": {"x: {'y': 1}", "x: {'y': 1}", "x:\n  \"y\": 1\n"},
		"a field": {"x: {k: 1}", "x: {k: 1, z: [2]}",
			"x:\n  k: 1\n  {{- if .Values.variant }}\n  z:\n  - 2\n  {{- end }}\n"},
		"the first item": {"x: [b]", "x: [a, b]",
			"x:\n{{- if .Values.variant }}\n- a\n{{- end }}\n- b\n"},
		"the last item": {"x: [b]", "x: [b, {c: d}]",
			"x:\n- b\n{{- if .Values.variant }}\n- c: d\n{{- end }}\n"},
		"a field of an item": {"x: [{b: 1}]", "x: [{a: 0, b: 1}]",
			"x:\n- b: 1\n  {{- if .Values.variant }}\n  a: 0\n  {{- end }}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := merged(t, tc.base, tc.variant)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a template with conditions around lines cannot express must not be left out silently.
func TestMergeRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ base, variant, want string }{
		"another value":  {"x: {k: 1}", "x: {k: 2}", "ConfigMap  a: x: k: 1 is replaced by 2"},
		"a lost field":   {"x: {k: 1}", "x: {}", "ConfigMap  a: x: k is removed"},
		"a lost item":    {"x: [a, b]", "x: [a]", "ConfigMap  a: x: b is removed or moved"},
		"another order":  {"x: [a, b]", "x: [b, a]", "ConfigMap  a: x: item 0: a is replaced by b"},
		"another type":   {"x: {k: 1}", "x: [1]", "ConfigMap  a: x: map[k:1] is replaced by [1]"},
		"a changed list": {"x: [a, b]", "x: [c, b, a]", "ConfigMap  a: x: b is removed or moved"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := merged(t, tc.base, tc.variant); err == nil || err.Error() != tc.want {
				t.Errorf("merging returns %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMergeOfWholeObjects(t *testing.T) {
	base := decoded(t, "kind: Secret\nmetadata: {name: a}\n---\nkind: Role\nmetadata: {name: b}\n")
	variant := decoded(t, "kind: Issuer\nmetadata: {name: c}\n---\nkind: Role\nmetadata: {name: b}\n---\nkind: Namespace\nmetadata: {name: d}\n")
	objects, err := merge(base, variant, ".Values.base", inVariant)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range objects {
		got[o.kind()] = o.condition
	}
	if diff := gocmp.Diff(map[string]string{"Secret": ".Values.base", "Role": "", "Issuer": inVariant}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestScalars(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  string
	}{
		"a template of others":      {"{{ $value }} fail", `'{{ "{{" }} $value {{ "}}" }} fail'`},
		"the namespace":             {"leasehold-system", "{{ .Release.Namespace | quote }}"},
		"the namespace in a text":   {"a.leasehold-system.svc", "a.{{ .Release.Namespace }}.svc"},
		"a text that reads as bool": {"off", `"off"`},
		"a large integer":           {int64(1048576000), "1048576000"},
		"two lines":                 {"a\nb\n", "|\n    a\n    b"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, scalar(2, tc.value)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A value has to go where it is meant to go, or nowhere.
func TestValuesNeedTheirPlaces(t *testing.T) {
	err := setValues(decoded(t, "kind: Secret\nmetadata: {name: a}\n"))
	if err == nil || !strings.Contains(err.Error(), "into which values go") {
		t.Errorf("without the objects, setting values returns %v", err)
	}
	deployment := chartObject{tree: map[string]any{"spec": map[string]any{}}}
	if err := setDeployment(&deployment); err == nil ||
		err.Error() != "template.spec is <nil>, want map[string]interface {}" {
		t.Errorf("without a Pod, setting values returns %v", err)
	}
	container := map[string]any{"image": "leasehold:dev", "args": []any{"--leader-elect"}}
	if err := setContainer(container); err == nil || err.Error() != "no argument names the viewer's image" {
		t.Errorf("without the viewer's image, setting values returns %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
)

// released has the CustomResourceDefinitions of the last release and objects of it. After a
// release: cat config/crd/bases/*.yaml >test/manifests/testdata/released/crds.yaml
const released = "testdata/released"

// documents reads the objects in YAML files.
func documents(t *testing.T, files ...string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range separate(t, text) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &o.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, o)
		}
	}
	return all
}

// schemas returns those of the served versions, by kind and version.
func schemas(g Gomega, definitions []*unstructured.Unstructured) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, d := range definitions {
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		g.Expect(err).NotTo(HaveOccurred())
		for _, v := range versions {
			version := v.(map[string]any)
			schema, _, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			g.Expect(err).NotTo(HaveOccurred())
			if served, _ := version["served"].(bool); served {
				all[kind+" "+version["name"].(string)] = schema
			}
		}
	}
	return all
}

// narrowed lists where a schema accepts less than the released one, or stores another value:
// requests of existing clients could be refused, dropped or changed.
func narrowed(field string, old, now map[string]any) (all []string) {
	report := func(format string, args ...any) { all = append(all, field+": "+fmt.Sprintf(format, args...)) }
	for _, key := range slices.Sorted(maps.Keys(mergedKeys(old, now))) {
		was, is := old[key], now[key]
		switch key {
		case "description", "items", "additionalProperties", "properties":
		case "maxLength", "maxItems", "maxProperties", "maximum":
			if is != nil && (was == nil || number(is) < number(was)) {
				report("%s was %v and is %v", key, was, is)
			}
		case "minLength", "minItems", "minProperties", "minimum":
			if is != nil && (was == nil || number(is) > number(was)) {
				report("%s was %v and is %v", key, was, is)
			}
		case "enum":
			if is != nil && (was == nil || len(without(was, is)) > 0) {
				report("enum was %v and is %v", was, is)
			}
		case "required", "x-kubernetes-validations":
			if more := without(withoutMessages(is), withoutMessages(was)); len(more) > 0 {
				report("%s has more: %v", key, more)
			}
		default:
			if !reflect.DeepEqual(was, is) {
				report("%s was %v and is %v", key, was, is)
			}
		}
	}
	children, next := childrenOf(old), childrenOf(now)
	for _, name := range slices.Sorted(maps.Keys(children)) {
		if next[name] == nil {
			all = append(all, field+name+": was removed")
			continue
		}
		all = append(all, narrowed(field+name, children[name], next[name])...)
	}
	return all
}

func mergedKeys(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// childrenOf returns the schemas below a schema, by the last part of their path.
func childrenOf(schema map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for name, child := range properties {
		all["."+name], _ = child.(map[string]any)
	}
	for key, path := range map[string]string{"items": "[]", "additionalProperties": "{}"} {
		if child, ok := schema[key].(map[string]any); ok {
			all[path] = child
		}
	}
	return all
}

func number(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v.(float64)
}

// withoutMessages returns a list of rules without their messages, which may change. Other lists stay equal.
func withoutMessages(list any) any {
	var all []any
	elements, _ := list.([]any)
	for _, v := range elements {
		if rule, ok := v.(map[string]any); ok {
			v = maps.Clone(rule)
			delete(v.(map[string]any), "message")
		}
		all = append(all, v)
	}
	return all
}

// without returns the elements of a list that another one lacks.
func without(a, b any) (all []any) {
	from, _ := a.([]any)
	others, _ := b.([]any)
	for _, v := range from {
		if !slices.ContainsFunc(others, func(o any) bool { return reflect.DeepEqual(v, o) }) {
			all = append(all, v)
		}
	}
	return all
}

// values collects the values of an object by field path.
func values(field string, v any, into map[string][]any) {
	into[field] = append(into[field], v)
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			values(field+"."+name, child, into)
		}
	case []any:
		for _, child := range v {
			values(field+"[]", child, into)
		}
	}
}

// untried lists the fields and enum values of a schema that no object uses.
func untried(field string, schema map[string]any, have map[string][]any) (all []string) {
	enum, _ := schema["enum"].([]any)
	for _, v := range enum {
		if !slices.Contains(have[field], v) {
			all = append(all, fmt.Sprintf("%s: %v", field, v))
		}
	}
	for name, child := range childrenOf(schema) {
		switch {
		case name == "{}": // users choose the names
		case len(have[field+name]) == 0:
			all = append(all, field+name)
		default:
			all = append(all, untried(field+name, child, have)...)
		}
	}
	return all
}

// Objects that the last release accepts must not be refused, lost or changed.
func TestCompatibility(t *testing.T) {
	g := NewWithT(t)
	definitions := documents(t, filepath.Join(released, "crds.yaml"))
	bases, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	current := documents(t, bases...)
	objects := documents(t, filepath.Join(released, "objects.yaml"))
	have := map[string]map[string][]any{}
	for _, o := range objects {
		kind := o.GetKind() + " " + o.GroupVersionKind().Version
		if have[kind] == nil {
			have[kind] = map[string][]any{}
		}
		values("", o.Object, have[kind])
	}
	now := schemas(g, current)
	for kind, schema := range schemas(g, definitions) {
		g.Expect(untried("", schema, have[kind])).To(BeEmpty(), "%s: no object in objects.yaml has this", kind)
		g.Expect(now).To(HaveKey(kind), "it is not served any more")
		for _, change := range narrowed("", schema, now[kind]) {
			t.Errorf("%s%s", kind, change)
		}
	}
	storedObjectsSurvive(t, definitions, current, objects)
}

// storedObjectsSurvive stores objects under the released definitions, and reads, writes, creates
// and deletes each under the current ones.
func storedObjectsSurvive(t *testing.T, definitions, current, objects []*unstructured.Unstructured) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	plane, err := env.Start(ctx, env.Options{})
	if errors.Is(err, env.ErrExistingCluster) {
		t.Skip(err)
	}
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(plane.Stop()).To(Succeed()) }()
	c, err := client.New(plane.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plane.Apply(ctx, definitions...)).To(Succeed())
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	stored := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		stored[i] = o.DeepCopy()
		g.Eventually(func() error { return c.Create(ctx, stored[i], strict) }).WithTimeout(time.Minute).Should(Succeed(),
			o.GetName())
		if o.Object["status"] != nil {
			stored[i].Object["status"] = o.Object["status"]
			validated := &client.SubResourceUpdateOptions{
				UpdateOptions: client.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}}
			g.Expect(c.Status().Update(ctx, stored[i], validated)).To(Succeed(), o.GetName())
		}
	}

	// Only the marked definitions have this field, so a response shows which definitions the API
	// server serves.
	const marker = "markerOfTheCurrentDefinition"
	for _, d := range current {
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		g.Expect(err).NotTo(HaveOccurred())
		for _, v := range versions {
			path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", marker, "type"}
			g.Expect(unstructured.SetNestedField(v.(map[string]any), "boolean", path...)).To(Succeed())
		}
		g.Expect(unstructured.SetNestedSlice(d.Object, versions, "spec", "versions")).To(Succeed())
	}
	g.Expect(plane.Apply(ctx, current...)).To(Succeed())
	for i, o := range objects {
		name := o.GetKind() + " " + o.GetName()
		again := o.DeepCopy()
		again.SetName(o.GetName() + "-again")
		g.Expect(unstructured.SetNestedField(again.Object, true, "spec", marker)).To(Succeed())
		g.Eventually(func() error { return c.Create(ctx, again.DeepCopy(), strict, client.DryRunAll) }).
			WithTimeout(time.Minute).Should(Succeed(), "create %s", name)

		read := o.DeepCopy()
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(o), read)).To(Succeed(), name)
		for _, part := range []string{"spec", "status"} {
			if diff := gocmp.Diff(stored[i].Object[part], read.Object[part]); diff != "" {
				t.Errorf("%s of %s (-stored +read):\n%s", part, name, diff)
			}
		}
		read.SetLabels(map[string]string{"example.com/a": "b"})
		g.Expect(c.Update(ctx, read, strict)).To(Succeed(), "label %s", name)
		read.Object["spec"] = o.Object["spec"]
		g.Expect(c.Update(ctx, read, strict)).To(Succeed(), "replace %s", name)
		if o.Object["status"] != nil {
			read.Object["status"] = o.Object["status"]
			g.Expect(c.Status().Update(ctx, read)).To(Succeed(), "status of %s", name)
			g.Expect(read.Object["status"]).To(Equal(stored[i].Object["status"]), "status of %s", name)
		}
		g.Expect(c.Delete(ctx, read)).To(Succeed(), "delete %s", name)
	}
	tutorialSamplesAreAccepted(t, c)
}

// tutorialSamplesAreAccepted checks that the API server accepts each sample of the tutorials with
// all its fields.
func tutorialSamplesAreAccepted(t *testing.T, c client.Client) {
	t.Helper()
	g, kinds := NewWithT(t), map[string]bool{}
	page := read(t, "docs", "coming-from-the-tutorials.md")
	for _, sample := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(sample[1]), &o.Object)).To(Succeed())
		kinds[o.GetKind()] = true
		g.Expect(c.Create(t.Context(), o, client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll)).
			To(Succeed(), sample[1])
	}
	g.Expect(kinds).To(HaveLen(3), "each kind has a sample")
}

func TestNarrowed(t *testing.T) {
	parse := func(text string) (schema map[string]any) {
		g := NewWithT(t)
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
		return o.Object
	}
	const base = `{type: object, required: [a], properties: {a: {type: string, maxLength: 5, enum: [x, w], default: x}, b: {items: {minimum: 1}}}}`
	for change, want := range map[string][]string{
		``: nil,
		`type: object -> description: d, type: object`: nil,
		`maxLength: 5 -> maxLength: 6`:                 nil,
		`minimum: 1 -> minimum: 0`:                     nil,
		`[x, w] -> [x, w, z]`:                          nil,
		`required: [a], -> `:                           nil,
		`required: [a] -> required: [a, b]`:            {": required has more: [b]"},
		`default: x -> default: w`:                     {".a: default was x and is w"},
		`[x, w] -> [x]`:                                {".a: enum was [x w] and is [x]"},
		`maxLength: 5 -> maxLength: 4`:                 {".a: maxLength was 5 and is 4"},
		`maxLength -> minLength: 1, maxLength`:         {".a: minLength was <nil> and is 1"},
		`minimum: 1 -> minimum: 2`:                     {".b[]: minimum was 1 and is 2"},
		`minimum -> maximum: 2, minimum`:               {".b[]: maximum was <nil> and is 2"},
		`type: string -> type: integer`:                {".a: type was string and is integer"},
		`maxLength -> pattern: p, maxLength`:           {".a: pattern was <nil> and is p"},
		`maxLength -> x-kubernetes-validations: [{rule: r, message: m}], maxLength`: {".a: x-kubernetes-validations has more: [map[rule:r]]"},
		`, b: {items: {minimum: 1}} -> `:                                            {".b: was removed"},
	} {
		from, to, _ := strings.Cut(change, " -> ")
		now := strings.Replace(base, from, to, 1)
		NewWithT(t).Expect(narrowed("", parse(base), parse(now))).To(Equal(want), now)
	}
}

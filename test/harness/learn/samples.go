// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"leasehold.dev/test/harness/env"
)

// Sample is a file of an operator's examples.
type Sample []*unstructured.Unstructured

// readSamples reads the YAML files of a folder, or one file. It adds the namespaces of their objects that neither they
// nor the installation have.
func readSamples(path string, installed []*unstructured.Unstructured) ([]Sample, error) {
	if path == "" {
		return nil, nil
	}
	var samples []Sample
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".yaml") && !strings.HasSuffix(file, ".yml") {
			return err
		}
		text, err := os.Open(file)
		if err != nil {
			return err
		}
		defer text.Close() //nolint:errcheck // it is only read
		var s Sample
		decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
		for {
			o := &unstructured.Unstructured{}
			err := decoder.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			if o.GetKind() != "" && o.GetKind() != "Kustomization" {
				s = append(s, o)
			}
		}
		samples = append(samples, s)
		return nil
	})
	all := slices.Concat(samples...)
	return append(samples, env.MissingNamespaces(slices.Concat(installed, all))), err
}

// example is the first sample of a kind. One of the stored version goes first: one of another is converted for each
// reader, by the operator.
func example(d *apiextensionsv1.CustomResourceDefinition, version string, samples []Sample) *unstructured.Unstructured {
	all := slices.Concat(samples...)
	for _, wanted := range []func(*unstructured.Unstructured) bool{
		func(o *unstructured.Unstructured) bool { return isOf(o, d) && o.GroupVersionKind().Version == version },
		func(o *unstructured.Unstructured) bool { return isOf(o, d) },
	} {
		if i := slices.IndexFunc(all, wanted); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// gather returns the objects of the file with an example, or of all files, without more examples of the kind. Before
// an object are those that it refers to, which may be in other files.
func gather(example *unstructured.Unstructured, d *apiextensionsv1.CustomResourceDefinition, samples []Sample,
	whole bool) (ordered []*unstructured.Unstructured) {
	all := slices.Concat(samples...)
	begun := map[string]bool{}
	var add func(o *unstructured.Unstructured)
	add = func(o *unstructured.Unstructured) {
		id := o.GroupVersionKind().GroupKind().String() + o.GetNamespace() + "/" + o.GetName()
		if begun[id] {
			return
		}
		begun[id] = true
		for _, other := range all {
			if refersTo(o, other) {
				add(other)
			}
		}
		ordered = append(ordered, o)
	}
	for _, file := range samples {
		if !whole && !slices.Contains(file, example) {
			continue
		}
		for _, o := range file {
			if o == example || !isOf(o, d) {
				add(o)
			}
		}
	}
	return ordered
}

// refersTo reports whether an object has the name of another one as a text, or is in that namespace.
func refersTo(o, other *unstructured.Unstructured) bool {
	if other.GetName() == "" || o == other {
		return false
	}
	if other.GetKind() == "Namespace" && o.GetNamespace() == other.GetName() {
		return true
	}
	for key, value := range o.Object {
		if key != "metadata" && key != "status" && !slices.Contains(notNames, key) && contains(value, other) {
			return true
		}
	}
	return false
}

// contains reports whether a value has the name of an object. What has also a kind names one of that kind.
func contains(value any, other *unstructured.Unstructured) bool {
	switch value := value.(type) {
	case map[string]any:
		if kind, _ := value["kind"].(string); kind != "" && kind != other.GetKind() {
			return false
		}
		for key, inner := range value {
			if !slices.Contains(notNames, key) && contains(inner, other) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(inner any) bool { return contains(inner, other) })
	case string:
		return value == other.GetName()
	}
	return false
}

// notNames are fields without names of objects. Values of labels are often the same text as the sample's name, and mean
// something else, as the version of a program.
var notNames = []string{"apiVersion", "kind", "labels", "matchLabels", "selector"}

// placeholders are what stands in place of the names of objects: words that a run makes unique names of.
func placeholders(objects []*unstructured.Unstructured, main int) map[string]string {
	names, used := map[string]string{}, map[string]bool{}
	for i := range objects {
		o := objects[(main+i)%len(objects)] // the one of the kind has the plain word
		word := strings.ToLower(o.GetKind())
		for n := 2; used[word]; n++ {
			word = fmt.Sprintf("%s-%d", strings.ToLower(o.GetKind()), n)
		}
		used[word] = true
		if _, known := names[o.GetName()]; !known {
			names[o.GetName()] = "{" + word + "}"
		}
	}
	return names
}

// renamed replaces texts that are names; keys and parts of texts stay.
func renamed(value any, names map[string]string) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if !slices.Contains(notNames, key) {
				value[key] = renamed(inner, names)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = renamed(inner, names)
		}
	case string:
		if name, known := names[value]; known {
			return name
		}
	}
	return value
}

// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/scenario"
)

// Helm configures the release of a chart.
type Helm struct {
	// Release is the release's name. Empty: the subject's.
	Release string `json:"release,omitempty"`
	// Namespace is the release's namespace. Empty: one with the release's name.
	Namespace string `json:"namespace,omitempty"`
	// Values are a file, or the values themselves. Left out: those of the chart.
	Values json.RawMessage `json:"values,omitempty"`
}

// chart returns the input for helm. Other kinds of manifests do not need it.
func (f *File) chart() (env.Chart, error) {
	h := Helm{}
	if f.Helm != nil {
		h = *f.Helm
	}
	chart := env.Chart{Release: cmp.Or(h.Release, f.Name)}
	chart.Namespace = cmp.Or(h.Namespace, chart.Release)
	var file string
	switch values := bytes.TrimSpace(h.Values); {
	case len(values) == 0 || string(values) == "null":
	case values[0] == '{':
		chart.Values = values // JSON is YAML
	case json.Unmarshal(values, &file) == nil:
		text, err := os.ReadFile(f.path(file))
		if err != nil {
			return chart, fmt.Errorf("helm.values: %w", err)
		}
		chart.Values = text
	default:
		return chart, errors.New("helm.values: name a file, or write the values as a map")
	}
	return chart, nil
}

// checkManifests finds manifests that have to be downloaded.
func (f *File) checkManifests() error {
	var errs []error
	if err := env.CheckLocal(f.Manifests); err != nil {
		errs = append(errs, fmt.Errorf("manifests: %w", err))
	}
	for _, path := range f.CRDs {
		if err := env.CheckLocal(path); err != nil {
			errs = append(errs, fmt.Errorf("crds: %w", err))
		}
	}
	return errors.Join(errs...)
}

// otherDefinitions are the objects of the files in crds.
func (f *File) otherDefinitions() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, p := range f.CRDs {
		objects, err := env.ReadYAML(f.path(p))
		if err != nil {
			return nil, fmt.Errorf("crds: %w", err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// use is a kind and the place where it is used.
type use struct {
	kind  schema.GroupVersionKind
	where string
}

// checkKinds returns an error for kinds in the scenarios that no API server has. Objects of the
// manifests of such kinds, as a ServiceMonitor, are not installed.
func (f *File) checkKinds(objects []*unstructured.Unstructured, scenarios []scenario.Scenario) error {
	others, err := f.otherDefinitions()
	if err != nil {
		return err
	}
	defined := definedKinds(slices.Concat(objects, others))
	var uses []use
	for _, s := range scenarios {
		for _, kind := range kindsOf(s) {
			uses = append(uses, use{kind, "scenario " + s.Name})
		}
	}
	var missing []string
	for _, u := range uses {
		kind := u.kind.GroupKind()
		text := fmt.Sprintf("%s (%s)", kind, u.where)
		if !isBuiltIn(kind.Group) && !slices.Contains(defined, kind) && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("crds: neither the manifests nor crds define %s: name files or folders with their CustomResourceDefinitions in crds, or with --crds of prove init",
		strings.Join(missing, ", "))
}

// isBuiltIn reports whether every API server has the group.
func isBuiltIn(group string) bool {
	return clientgoscheme.Scheme.IsGroupRegistered(group) || group == "apiextensions.k8s.io" ||
		group == "apiregistration.k8s.io"
}

// definedKinds are the kinds of the CustomResourceDefinitions among objects.
func definedKinds(objects []*unstructured.Unstructured) []schema.GroupKind {
	var kinds []schema.GroupKind
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			// Other types of fields are errors of the API server.
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			kinds = append(kinds, schema.GroupKind{Group: group, Kind: kind})
		}
	}
	return kinds
}

// kindsOf are the kinds of the objects that the steps of a scenario name.
func kindsOf(s scenario.Scenario) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	object := func(fields map[string]any) {
		if fields != nil {
			kinds = append(kinds, (&unstructured.Unstructured{Object: fields}).GroupVersionKind())
		}
	}
	ref := func(r *scenario.Ref) {
		if r != nil {
			kinds = append(kinds, schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
		}
	}
	for _, step := range s.Steps {
		object(step.Apply)
		ref(step.Delete)
		if step.Patch != nil {
			ref(&step.Patch.Object)
		}
		if step.Wait != nil {
			ref(&step.Wait.Object)
		}
		if step.Quiesce != nil {
			for _, w := range step.Quiesce.Until {
				ref(&w.Object)
			}
		}
		if step.Attack != nil {
			object(step.Attack.Template)
			ref(step.Attack.Object)
			ref(step.Attack.Owner)
		}
	}
	return kinds
}

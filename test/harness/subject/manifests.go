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

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/scenario"
)

// Helm configures the release of a chart.
type Helm struct {
	// Release is the name of the release, by default the subject's.
	Release string `json:"release,omitempty"`
	// Namespace is the namespace of the release, by default one with its name.
	Namespace string `json:"namespace,omitempty"`
	// Values are a file, or the values themselves.
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

// definitions are the CustomResourceDefinitions of the manifests and of the files in crds.
func (f *File) definitions(objects []*unstructured.Unstructured) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := Definitions(objects)
	if err != nil {
		return nil, fmt.Errorf("manifests: %s: %w", f.Manifests, err)
	}
	var paths []string
	for _, path := range f.CRDs {
		paths = append(paths, f.path(path))
	}
	others, err := ReadDefinitions(paths)
	if err != nil {
		return nil, fmt.Errorf("crds: %w", err)
	}
	return append(all, others...), nil
}

// checkKinds returns an error for kinds in the scenarios that no API server has. Objects of the
// manifests of such kinds, as a ServiceMonitor, are not installed.
func checkKinds(definitions []*apiextensionsv1.CustomResourceDefinition, scenarios []scenario.Scenario) error {
	var defined []schema.GroupKind
	for _, d := range definitions {
		defined = append(defined, schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind})
	}
	var missing []string
	for _, s := range scenarios {
		for _, kind := range kindsOf(s) {
			text := fmt.Sprintf("%s (scenario %s)", kind, s.Name)
			if !isBuiltIn(kind.Group) && !slices.Contains(defined, kind) && !slices.Contains(missing, text) {
				missing = append(missing, text)
			}
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

// kindsOf are the kinds of the objects that the steps of a scenario name.
func kindsOf(s scenario.Scenario) []schema.GroupKind {
	var kinds []schema.GroupKind
	object := func(fields map[string]any) {
		if fields != nil {
			kinds = append(kinds, (&unstructured.Unstructured{Object: fields}).GroupVersionKind().GroupKind())
		}
	}
	ref := func(r *scenario.Ref) {
		if r != nil {
			kinds = append(kinds, schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind())
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
			object(step.Attack.Apply)
			ref(step.Attack.Owner)
			if step.Attack.Patch != nil {
				ref(&step.Attack.Patch.Object)
			}
		}
	}
	return kinds
}

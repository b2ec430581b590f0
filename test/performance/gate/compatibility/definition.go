package compatibility

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/test/performance/gate/row"
)

// CompareDefinitions compares all kinds: one row for each served version of base,
// and one for each difference.
func CompareDefinitions(base, head []apiextensionsv1.CustomResourceDefinition) []row.Row {
	var rows []row.Row
	for _, old := range base {
		i := slices.IndexFunc(head, named(old.Name))
		if i < 0 {
			rows = append(rows, row.Row{ID: prefix + "schema/" + old.Name, Base: "served", Verdict: row.Worse,
				Reason: "the kind is gone, and all its objects with it: keep it"})
			continue
		}
		rows = append(rows, compareDefinition(old, head[i])...)
	}
	for _, now := range head {
		if !slices.ContainsFunc(base, named(now.Name)) {
			rows = append(rows, row.Row{ID: prefix + "schema/" + now.Name, Head: "served", Verdict: row.New, Reason: "a new kind"})
		}
	}
	return rows
}

func named(name string) func(apiextensionsv1.CustomResourceDefinition) bool {
	return func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == name }
}

func compareDefinition(base, head apiextensionsv1.CustomResourceDefinition) []row.Row {
	id := prefix + "schema/" + base.Name
	rows := changed(id, names(base), names(head))
	for _, old := range base.Spec.Versions {
		if !old.Served {
			continue
		}
		now := version(head, old.Name)
		if now == nil || !now.Served {
			rows = append(rows, row.Row{ID: id + "/" + old.Name, Base: "served", Verdict: row.Worse,
				Reason: "clients of this version find nothing any more: serve it as long as anybody may use it"})
			continue
		}
		rows = append(rows, compareVersion(id+"/"+old.Name, old, *now)...)
	}
	for _, now := range head.Spec.Versions {
		if old := version(base, now.Name); now.Served && (old == nil || !old.Served) {
			rows = append(rows, row.Row{ID: id + "/" + now.Name, Head: "served", Verdict: row.New, Reason: "a new version"})
		}
	}
	return rows
}

func compareVersion(id string, base, head apiextensionsv1.CustomResourceDefinitionVersion) []row.Row {
	rows := changed(id, surroundings(base), surroundings(head))
	for _, c := range CompareSchemas(schemaOf(base), schemaOf(head)) {
		rows = append(rows, row.Row{
			ID: id + "/" + cmp.Or(c.Field, "object") + " " + c.What, Base: c.Base, Head: c.Head, Verdict: c.Verdict, Reason: c.Reason,
		})
	}
	if len(rows) > 0 {
		return rows
	}
	fields := fmt.Sprintf("%d fields", CountFields(schemaOf(base)))
	return []row.Row{{ID: id, Base: fields, Head: fields, Verdict: row.Same}}
}

func schemaOf(v apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	return ptr.Deref(v.Schema, apiextensionsv1.CustomResourceValidation{}).OpenAPIV3Schema
}

func version(d apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == name {
			return &d.Spec.Versions[i]
		}
	}
	return nil
}

// trait is something of a definition that clients rely on beside the schema.
type trait struct{ what, value string }

// names are how clients, and the API server itself, find a kind.
func names(d apiextensionsv1.CustomResourceDefinition) []trait {
	n := d.Spec.Names
	traits := []trait{
		{"scope", string(d.Spec.Scope)}, {"group", d.Spec.Group},
		{"kind", n.Kind}, {"list kind", n.ListKind}, {"plural", n.Plural}, {"singular", n.Singular},
	}
	for _, v := range d.Spec.Versions {
		if v.Storage {
			traits = append(traits, trait{"storage version", v.Name})
		}
	}
	for _, s := range n.ShortNames {
		traits = append(traits, trait{"short name " + s, "there"})
	}
	for _, s := range n.Categories {
		traits = append(traits, trait{"category " + s, "there"})
	}
	return traits
}

// surroundings are what a version offers beside its fields.
func surroundings(v apiextensionsv1.CustomResourceDefinitionVersion) []trait {
	var traits []trait
	if s := v.Subresources; s != nil && s.Status != nil {
		traits = append(traits, trait{"subresource status", "there"})
	}
	if s := v.Subresources; s != nil && s.Scale != nil {
		paths := []string{s.Scale.SpecReplicasPath, s.Scale.StatusReplicasPath, ptr.Deref(s.Scale.LabelSelectorPath, "")}
		traits = append(traits, trait{"subresource scale", strings.Join(paths, " ")})
	}
	for _, c := range v.AdditionalPrinterColumns {
		traits = append(traits, trait{"column " + c.Name, strings.Join([]string{c.Type, c.Format, c.JSONPath, fmt.Sprint(c.Priority)}, " ")})
	}
	for _, f := range v.SelectableFields {
		traits = append(traits, trait{"selectable field " + f.JSONPath, "there"})
	}
	return traits
}

// changed is a row for each trait that is not the same.
func changed(id string, base, head []trait) []row.Row {
	of := func(all []trait, what string) int {
		return slices.IndexFunc(all, func(t trait) bool { return t.what == what })
	}
	var rows []row.Row
	for _, old := range base {
		now := trait{}
		if i := of(head, old.what); i >= 0 {
			now = head[i]
		}
		if now != old {
			rows = append(rows, row.Row{ID: id + "/" + old.what, Base: old.value, Head: now.value, Verdict: row.Worse,
				Reason: "clients, scripts or stored objects rely on it: leave it as it was"})
		}
	}
	for _, now := range head {
		if of(base, now.what) < 0 {
			rows = append(rows, row.Row{ID: id + "/" + now.what, Head: now.value, Verdict: row.New, Reason: reasonAdded})
		}
	}
	return rows
}

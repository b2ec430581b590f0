package compatibility

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/test/performance/gate/row"
)

func TestCompareDefinitions(t *testing.T) {
	t.Parallel()
	type definition = apiextensionsv1.CustomResourceDefinition
	for name, test := range map[string]struct {
		change func(*definition)
		want   map[string]row.Verdict
	}{
		"nothing": {func(*definition) {}, map[string]row.Verdict{"/v1": row.Same}},
		"another name, so the kind is gone": {func(d *definition) { d.Name = "others.example.com" },
			map[string]row.Verdict{"": row.Worse, "others.example.com": row.New}},
		"scope": {func(d *definition) { d.Spec.Scope = apiextensionsv1.ClusterScoped },
			map[string]row.Verdict{"/v1": row.Same, "/scope": row.Worse}},
		"one short name for another": {func(d *definition) { d.Spec.Names.ShortNames = []string{"wi"} },
			map[string]row.Verdict{"/v1": row.Same, "/short name w": row.Worse, "/short name wi": row.New}},
		"a version that is no longer served": {func(d *definition) { d.Spec.Versions[0].Served = false },
			map[string]row.Verdict{"/v1": row.Worse}},
		"a version more, and stored": {func(d *definition) {
			d.Spec.Versions[0].Storage = false
			d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Served: true, Storage: true})
		}, map[string]row.Verdict{"/v1": row.Same, "/v2": row.New, "/storage version": row.Worse}},
		"no status of its own": {func(d *definition) { d.Spec.Versions[0].Subresources.Status = nil },
			map[string]row.Verdict{"/v1/subresource status": row.Worse}},
		"another path to scale": {func(d *definition) { d.Spec.Versions[0].Subresources.Scale.SpecReplicasPath = ".spec.count" },
			map[string]row.Verdict{"/v1/subresource scale": row.Worse}},
		"a column gone and one more": {func(d *definition) { d.Spec.Versions[0].AdditionalPrinterColumns[0].Name = "Bigness" },
			map[string]row.Verdict{"/v1/column Size": row.Worse, "/v1/column Bigness": row.New}},
		"a field": {func(d *definition) {
			edit(d.Spec.Versions[0].Schema.OpenAPIV3Schema, "spec", func(s *apiextensionsv1.JSONSchemaProps) { delete(s.Properties, "files") })
		}, map[string]row.Verdict{"/v1/spec.files removed": row.Worse}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, head := widgets(t), widgets(t)
			test.change(&head)
			got := map[string]row.Verdict{}
			for _, r := range CompareDefinitions([]definition{base}, []definition{head}) {
				got[r.ID] = r.Verdict
				if r.Verdict != row.Same && r.Reason == "" {
					t.Errorf("%s has no reason", r.ID)
				}
			}
			want := map[string]row.Verdict{}
			for id, v := range test.want {
				if id == "" || id[0] == '/' {
					id = "widgets.example.com" + id
				}
				want["compatibility/schema/"+id] = v
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func widgets(t *testing.T) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d := apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com",
		Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets", ShortNames: []string{"w"}},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: parse(t)},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"},
			},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}},
		}},
	}}
	d.Name = "widgets.example.com"
	return d
}

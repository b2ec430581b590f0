package manifests

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/api/v1beta1"
)

// Strict decoding is half of the test: a sample with a field that is not in the
// API does not get this far.
func TestSamples(t *testing.T) {
	samples := render(t, "samples")
	type summary struct {
		Namespaces []v1beta1.NamespaceSuffix
		Policy     v1beta1.NamespaceDeletionPolicy
	}
	got, kinds := map[string]summary{}, map[v1beta1.SubjectKind]bool{}
	for _, tenant := range all[*v1beta1.Tenant](samples) {
		got[tenant.Name] = summary{tenant.Spec.Namespaces, tenant.Spec.NamespaceDeletionPolicy}
		for _, admin := range tenant.Spec.Admins {
			kinds[admin.Kind] = true
		}
	}
	want := map[string]summary{
		"sample":          {[]v1beta1.NamespaceSuffix{"dev", "prod"}, v1beta1.NamespaceDelete},
		"sample-retained": {[]v1beta1.NamespaceSuffix{"archive"}, v1beta1.NamespaceRetain},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	policies := map[v1beta1.BucketManagementPolicy]bool{}
	for _, bucket := range all[*v1beta1.StorageBucket](samples) {
		policies[bucket.Spec.ManagementPolicy] = true
	}
	if !policies[""] || !policies[v1beta1.BucketManage] {
		t.Errorf("samples of StorageBucket have the policies %v, want Manage and the default", policies)
	}
	if unseen := len(samples) - len(got) - len(all[*v1beta1.StorageBucket](samples)) - len(all[*v1beta1.MarkdownView](samples)); unseen != 0 {
		t.Errorf("%d objects in config/samples that no test looks at", unseen)
	}
	for _, kind := range []v1beta1.SubjectKind{v1beta1.SubjectUser, v1beta1.SubjectGroup, v1beta1.SubjectServiceAccount} {
		if !kinds[kind] {
			t.Errorf("no sample shows an admin of kind %s", kind)
		}
	}
}

func TestCustomResourceDefinition(t *testing.T) {
	crd := one[*apiextensionsv1.CustomResourceDefinition](t, render(t, "default"), "tenants.leasehold.dev")
	if crd.Spec.Scope != apiextensionsv1.ClusterScoped {
		t.Errorf("scope is %s, want Cluster", crd.Spec.Scope)
	}
	if diff := gocmp.Diff([]string{"leasehold"}, crd.Spec.Names.Categories); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
	if len(crd.Spec.Names.ShortNames) != 0 {
		t.Errorf("short names %v: those of Tenant are taken by other projects", crd.Spec.Names.ShortNames)
	}
	for _, version := range crd.Spec.Versions {
		if version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("%s has no status subresource", version.Name)
		}
	}
}

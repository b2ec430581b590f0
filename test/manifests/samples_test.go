package manifests

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
	if unseen := len(samples) - len(got) - len(all[*v1beta1.StorageBucket](samples)) - len(
		all[*v1beta1.MarkdownView](samples)); unseen != 0 {
		t.Errorf("%d objects in config/samples that no test looks at", unseen)
	}
	for _, kind := range []v1beta1.SubjectKind{v1beta1.SubjectUser, v1beta1.SubjectGroup, v1beta1.SubjectServiceAccount} {
		if !kinds[kind] {
			t.Errorf("no sample shows an admin of kind %s", kind)
		}
	}
}

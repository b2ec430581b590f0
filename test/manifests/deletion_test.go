package manifests

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Deletion waits for no webhook, so none is sent a request about what is being deleted. A
// webhook that a marker adds has to be added to config/webhook/deletion_patch.yaml.
func TestWebhooksLetDeletionPass(t *testing.T) {
	want := []admissionregistrationv1.MatchCondition{{
		Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"}}
	for _, dir := range []string{"default", "certmanager"} {
		objects := render(t, dir)
		mutating := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, objects,
			"leasehold-mutating-webhook-configuration")
		validating := one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, objects,
			"leasehold-validating-webhook-configuration")
		got := map[string][]admissionregistrationv1.MatchCondition{}
		for _, w := range mutating.Webhooks {
			got[w.Name] = w.MatchConditions
		}
		for _, w := range validating.Webhooks {
			got[w.Name] = w.MatchConditions
		}
		if len(got) == 0 {
			t.Errorf("%s has no webhooks", dir)
		}
		for name, conditions := range got {
			if diff := gocmp.Diff(want, conditions); diff != "" {
				t.Errorf("%s, %s: match conditions (-want +got):\n%s", dir, name, diff)
			}
		}
	}
}

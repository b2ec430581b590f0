// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// webhooks returns the webhooks of both kinds by name, in their common form.
func webhooks(t *testing.T, objects []object) map[string]admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	all := map[string]admissionregistrationv1.ValidatingWebhook{}
	for _, configuration := range webhookConfigurations(objects) {
		text, err := json.Marshal(configuration)
		if err != nil {
			t.Fatal(err)
		}
		var common admissionregistrationv1.ValidatingWebhookConfiguration
		if err := json.Unmarshal(text, &common); err != nil {
			t.Fatal(err)
		}
		for _, w := range common.Webhooks {
			all[w.Name] = w
		}
	}
	return all
}

func webhookConfigurations(objects []object) []object {
	var configurations []object
	for _, c := range all[*admissionregistrationv1.MutatingWebhookConfiguration](objects) {
		configurations = append(configurations, c)
	}
	for _, c := range all[*admissionregistrationv1.ValidatingWebhookConfiguration](objects) {
		configurations = append(configurations, c)
	}
	return configurations
}

// While the operator is down, writes to our kinds must be rejected, and users must be able to
// delete objects. So no webhook is called for objects that are being deleted. A webhook that a
// marker adds must be added to config/webhook/deletion_patch.yaml too.
func TestWebhookEntries(t *testing.T) {
	const (
		mutate   = "/mutate-leasehold-dev-v1beta1-"
		validate = "/validate-leasehold-dev-v1beta1-"
		fail     = admissionregistrationv1.Fail
		ignore   = admissionregistrationv1.Ignore
	)
	want := map[string]admissionregistrationv1.ValidatingWebhook{}
	expect := func(name, path, kind string, failure admissionregistrationv1.FailurePolicyType,
		on ...admissionregistrationv1.OperationType) {
		want[name] = admissionregistrationv1.ValidatingWebhook{
			Name: name,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: operatorNamespace, Name: "leasehold-webhook-service", Path: new(path + kind)}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: on, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"leasehold.dev"}, APIVersions: []string{"v1beta1"}, Resources: []string{kind + "s"}}}},
			FailurePolicy:           &failure,
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(5)),
			AdmissionReviewVersions: []string{"v1"},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "not-being-deleted",
				Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"}},
		}
	}
	expect("mtenant.leasehold.dev", mutate, "tenant", fail, admissionregistrationv1.Create)
	expect("vtenant.leasehold.dev", validate, "tenant", fail, admissionregistrationv1.Create,
		admissionregistrationv1.Update)
	const deletion = "vtenant-delete.leasehold.dev"
	expect(deletion, validate, "tenant", ignore, admissionregistrationv1.Delete)
	again := want[deletion] // a second deletion can be one in the foreground
	again.MatchConditions = nil
	want[deletion] = again
	expect("vmarkdownview.leasehold.dev", validate, "markdownview", fail, admissionregistrationv1.Create,
		admissionregistrationv1.Update)
	for _, dir := range []string{"default", "certmanager"} {
		if diff := gocmp.Diff(want, webhooks(t, render(t, dir))); diff != "" {
			t.Errorf("webhooks of config/%s (-want +got):\n%s", dir, diff)
		}
	}
}

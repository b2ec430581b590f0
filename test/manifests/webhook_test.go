package manifests

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// entry is what matters of one webhook.
type entry struct {
	Path, Service, Namespace   string
	Operations                 []admissionregistrationv1.OperationType
	Failure                    admissionregistrationv1.FailurePolicyType
	Match                      admissionregistrationv1.MatchPolicyType
	SideEffects                admissionregistrationv1.SideEffectClass
	TimeoutSeconds             int32
	Groups, Resources, Reviews []string
}

func entryOf(
	client admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations,
	failure *admissionregistrationv1.FailurePolicyType, match *admissionregistrationv1.MatchPolicyType,
	sideEffects *admissionregistrationv1.SideEffectClass, timeout *int32, reviews []string,
) entry {
	e := entry{
		Path: *client.Service.Path, Service: client.Service.Name, Namespace: client.Service.Namespace,
		Failure: *failure, Match: *match, SideEffects: *sideEffects, TimeoutSeconds: *timeout, Reviews: reviews,
	}
	for _, rule := range rules {
		e.Operations = append(e.Operations, rule.Operations...)
		e.Groups = append(e.Groups, rule.APIGroups...)
		e.Resources = append(e.Resources, rule.Resources...)
	}
	return e
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

// A dead operator must stop our kinds from being written unchecked, and must not
// stop anybody from removing one.
func TestWebhookEntries(t *testing.T) {
	const (
		mutate   = "/mutate-leasehold-dev-v1beta1-"
		validate = "/validate-leasehold-dev-v1beta1-"
		fail     = admissionregistrationv1.Fail
		ignore   = admissionregistrationv1.Ignore
	)
	want := map[string]entry{}
	expect := func(name, path, kind string, failure admissionregistrationv1.FailurePolicyType,
		on ...admissionregistrationv1.OperationType) {
		want[name] = entry{
			Path: path + kind, Service: "leasehold-webhook-service", Namespace: operatorNamespace,
			Operations: on, Failure: failure, Match: admissionregistrationv1.Equivalent,
			SideEffects: admissionregistrationv1.SideEffectClassNone, TimeoutSeconds: 5,
			Groups: []string{"leasehold.dev"}, Resources: []string{kind + "s"}, Reviews: []string{"v1"},
		}
	}
	expect("mtenant.leasehold.dev", mutate, "tenant", fail, admissionregistrationv1.Create)
	expect("vtenant.leasehold.dev", validate, "tenant", fail, admissionregistrationv1.Create,
		admissionregistrationv1.Update)
	expect("vtenant-delete.leasehold.dev", validate, "tenant", ignore, admissionregistrationv1.Delete)
	expect("vmarkdownview.leasehold.dev", validate, "markdownview", fail, admissionregistrationv1.Create,
		admissionregistrationv1.Update)

	for _, dir := range []string{"default", "certmanager"} {
		t.Run(dir, func(t *testing.T) {
			objects := render(t, dir)
			got := map[string]entry{}
			mutating := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, objects,
				"leasehold-mutating-webhook-configuration")
			for _, w := range mutating.Webhooks {
				got[w.Name] = entryOf(w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds,
					w.AdmissionReviewVersions)
			}
			validating := one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, objects,
				"leasehold-validating-webhook-configuration")
			for _, w := range validating.Webhooks {
				got[w.Name] = entryOf(w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds,
					w.AdmissionReviewVersions)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("webhooks (-want +got):\n%s", diff)
			}
		})
	}
}

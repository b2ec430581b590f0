package rights

import (
	"fmt"
	"path"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// addWebhooks adds each webhook of a configuration, of either kind: what is read
// here they have in common.
func addWebhooks(all map[string]guarded, obj *unstructured.Unstructured) error {
	var c admissionregistrationv1.ValidatingWebhookConfiguration
	if err := convert(obj, &c); err != nil {
		return err
	}
	for _, w := range c.Webhooks {
		g := newGuarded()
		g.failure(w.FailurePolicy)
		for _, rule := range w.Rules {
			g.rule(rule)
		}
		g.conditions(w.MatchConditions)
		g.selectors(w.NamespaceSelector, w.ObjectSelector)
		all["webhook "+w.Name] = g
	}
	return nil
}

func ofPolicy(obj *unstructured.Unstructured) (guarded, error) {
	var p admissionregistrationv1.ValidatingAdmissionPolicy
	if err := convert(obj, &p); err != nil {
		return guarded{}, err
	}
	g := newGuarded()
	g.failure(p.Spec.FailurePolicy)
	g.conditions(p.Spec.MatchConditions)
	for _, v := range p.Spec.Validations {
		g.guards["validation "+v.Expression] = true
	}
	g.resources(p.Spec.MatchConstraints)
	return g, nil
}

func ofBinding(obj *unstructured.Unstructured) (guarded, error) {
	var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
	if err := convert(obj, &b); err != nil {
		return guarded{}, err
	}
	g := newGuarded()
	g.guards["of policy "+b.Spec.PolicyName] = true
	if slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny) {
		g.guards["validationActions Deny"] = true
	}
	if ref := b.Spec.ParamRef; ref != nil {
		g.guards["parameters from "+path.Join(ref.Namespace, ref.Name)] = true
		if ptr.Deref(ref.ParameterNotFoundAction, "") == admissionregistrationv1.DenyAction {
			g.guards["parameterNotFoundAction Deny"] = true
		}
	}
	if b.Spec.MatchResources != nil {
		g.resources(b.Spec.MatchResources)
	}
	return g, nil
}

// failure is what becomes of a request that cannot be judged.
func (g guarded) failure(p *admissionregistrationv1.FailurePolicyType) {
	if ptr.Deref(p, admissionregistrationv1.Fail) == admissionregistrationv1.Fail {
		g.guards["failurePolicy Fail"] = true
	}
}

// rule adds each request of a rule, as CREATE leasehold.dev/v1beta1/tenants.
func (g guarded) rule(r admissionregistrationv1.RuleWithOperations) {
	each(r, func(request string) { g.guards["asked about "+request] = true })
}

func each(r admissionregistrationv1.RuleWithOperations, do func(request string)) {
	for _, operation := range r.Operations {
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				for _, resource := range r.Resources {
					do(fmt.Sprintf("%s %s", operation, path.Join(group, version, resource)))
				}
			}
		}
	}
}

func (g guarded) resources(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	for _, r := range m.ResourceRules {
		g.rule(r.RuleWithOperations)
	}
	for _, r := range m.ExcludeResourceRules {
		each(r.RuleWithOperations, func(request string) { g.holes["not asked about "+request] = true })
	}
	g.selectors(m.NamespaceSelector, m.ObjectSelector)
}

// conditions and selectors narrow what is asked about.
func (g guarded) conditions(all []admissionregistrationv1.MatchCondition) {
	for _, c := range all {
		g.holes["only asked if "+c.Expression] = true
	}
}

func (g guarded) selectors(namespaces, objects *metav1.LabelSelector) {
	for what, selector := range map[string]*metav1.LabelSelector{"namespaces": namespaces, "objects": objects} {
		if text := metav1.FormatLabelSelector(selector); selector != nil && text != "" && text != "<none>" {
			g.holes[fmt.Sprintf("only asked about %s with %s", what, text)] = true
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

const credentialsName = "leasehold-credentials.leasehold.dev"

// The policy matches the deletion of every Secret and ConfigMap of the cluster, so it must allow
// all that the operator does not need.
func TestCredentialsPolicyMatchesAllDeletions(t *testing.T) {
	for _, dir := range []string{"default", "certmanager"} {
		t.Run(dir, func(t *testing.T) {
			objects := render(t, dir)
			p, b := one[*fencePolicy](t, objects, credentialsName), one[*fenceBinding](t, objects, credentialsName)
			if b.Spec.PolicyName != p.Name {
				t.Errorf("the binding is of the policy %q, want %q", b.Spec.PolicyName, p.Name)
			}
			if *p.Spec.FailurePolicy != admissionregistrationv1.Ignore ||
				*b.Spec.ParamRef.ParameterNotFoundAction != admissionregistrationv1.AllowAction {
				t.Error("without a StorageBucket, or without its CRD, no user could delete a Secret")
			}
			kind := admissionregistrationv1.ParamKind{APIVersion: v1beta1.GroupVersion.String(), Kind: "StorageBucket"}
			if *p.Spec.ParamKind != kind {
				t.Errorf("the policy judges by %v, want %v", *p.Spec.ParamKind, kind)
			}
			// A namespace or a name here would restrict the policy to one tenant.
			ref := b.Spec.ParamRef
			if ref.Name != "" || ref.Namespace != "" || !isEverything(ref.Selector) {
				t.Errorf("the policy reads %+v, want all StorageBuckets of the request's namespace", ref)
			}
			for _, rule := range p.Spec.MatchConstraints.ResourceRules {
				if !slices.Equal(rule.Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}) ||
					!slices.Equal(rule.Resources, []string{"secrets", "configmaps"}) || !slices.Equal(rule.APIGroups, []string{""}) {
					t.Errorf("the policy judges %+v, want deletions of Secrets and ConfigMaps", rule)
				}
			}
		})
	}
}

func isEverything(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// The policy repeats the finalizer's name, which is a constant in Go.
func TestCredentialsPolicyNamesTheFinalizer(t *testing.T) {
	p := one[*fencePolicy](t, render(t, "default"), credentialsName)
	if !slices.ContainsFunc(p.Spec.Variables, func(v admissionregistrationv1.Variable) bool {
		return strings.Contains(v.Expression, "'"+v1beta1.StorageBucketFinalizer+"' in")
	}) {
		t.Errorf("no expression has the finalizer %s: %v", v1beta1.StorageBucketFinalizer, p.Spec.Variables)
	}
}

// The policy must treat an absent field as the schema's default: the API server stores defaults
// only with the next write.
func TestCredentialsPolicyHasTheDefaultsOfTheSchema(t *testing.T) {
	objects := render(t, "default")
	crd := one[*apiextensionsv1.CustomResourceDefinition](t, objects, "storagebuckets.leasehold.dev")
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	defaults := regexp.MustCompile(`params\.spec\.\?(\w+)\.orValue\('(\w+)'\)`)
	found := map[string]string{}
	for _, v := range one[*fencePolicy](t, objects, credentialsName).Spec.Variables {
		for _, m := range defaults.FindAllStringSubmatch(v.Expression, -1) {
			found[m[1]] = m[2]
		}
	}
	for _, field := range []string{"managementPolicy", "deletionPolicy"} {
		var want string
		if err := json.Unmarshal(spec[field].Default.Raw, &want); err != nil {
			t.Fatal(err)
		}
		if found[field] != want {
			t.Errorf("without %s the policy takes it for %q, the schema for %q", field, found[field], want)
		}
	}
}

// Each condition of the policy has a row that satisfies all others. The expressions are evaluated
// as in the API server, so the expectations do not repeat them.
func TestCredentialsPolicyDecides(t *testing.T) {
	type object = map[string]any
	p := one[*fencePolicy](t, render(t, "default"), credentialsName)
	for name, tc := range map[string]struct {
		resource, named string
		change          func(metadata, spec object)
		refused         bool
	}{
		"a managed bucket that removes": {"secrets", "keys", func(object, object) {}, true},
		"before it has its finalizer":   {"secrets", "keys", func(m, _ object) { delete(m, "finalizers") }, true},
		"being deleted, with its finalizer": {"secrets", "keys", func(m, _ object) {
			m["deletionTimestamp"] = "2030-01-01T00:00:00Z"
		}, true},
		"being deleted, with another finalizer": {"secrets", "keys", func(m, _ object) {
			m["deletionTimestamp"], m["finalizers"] = "2030-01-01T00:00:00Z", []string{"example.com/other"}
		}, false},
		"being deleted, without a finalizer": {"secrets", "keys", func(m, _ object) {
			m["deletionTimestamp"] = "2030-01-01T00:00:00Z"
			delete(m, "finalizers")
		}, false},
		"another Secret":                  {"secrets", "other", func(object, object) {}, false},
		"a Secret with the bundle's name": {"secrets", "bundle", func(object, object) {}, false},
		"its bundle":                      {"configmaps", "bundle", func(object, object) {}, true},
		"another ConfigMap":               {"configmaps", "keys", func(object, object) {}, false},
		"without a bundle":                {"configmaps", "bundle", func(_, s object) { delete(s, "caBundleRef") }, false},
		"observed": {"secrets", "keys", func(_, s object) { s["managementPolicy"] = "Observe" },
			false},
		"observed by default": {"secrets", "keys", func(_, s object) { delete(s, "managementPolicy") }, false},
		"retained":            {"secrets", "keys", func(_, s object) { s["deletionPolicy"] = "Retain" }, false},
		"retained by default": {"secrets", "keys", func(_, s object) { delete(s, "deletionPolicy") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := object{"name": "photos", "finalizers": []string{v1beta1.StorageBucketFinalizer}}
			spec := object{"managementPolicy": "Manage", "deletionPolicy": "Delete",
				"credentialsSecretRef": object{"name": "keys"}, "caBundleRef": object{"name": "bundle"}}
			tc.change(metadata, spec)
			variables := object{}
			input := object{"params": object{"metadata": metadata, "spec": spec}, "variables": variables,
				"request":   object{"resource": object{"resource": tc.resource}},
				"oldObject": object{"metadata": object{"name": tc.named}}}
			for _, v := range p.Spec.Variables {
				variables[v.Name] = evaluate(t, v.Expression, input)
			}
			if allowed := evaluate(t, p.Spec.Validations[0].Expression, input); allowed != !tc.refused {
				t.Errorf("the deletion is allowed: %v, want %t; %v", allowed, !tc.refused, variables)
			}
		})
	}
}

// evaluate returns the value of a CEL expression of an admission policy.
func evaluate(t *testing.T, expression string, input map[string]any) any {
	t.Helper()
	options := []cel.EnvOption{cel.OptionalTypes()}
	for name := range input {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	environment, err := cel.NewEnv(options...)
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := environment.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := environment.Program(checked)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(input)
	if err != nil {
		t.Fatal(err)
	}
	return value.Value()
}

package rights

import (
	"fmt"
	"path"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// aggregates begins the labels by which the rules of a ClusterRole become those of
// another one, such as Kubernetes' own admin.
const aggregates = "rbac.authorization.k8s.io/aggregate-to-"

// holder is somebody who has rights.
type holder struct {
	// rules by the namespace that they hold in; those of "" hold everywhere.
	rules map[string][]rbacv1.PolicyRule
	// unknown are the roles that they have and that are not shipped, with where.
	unknown map[string]bool
	// latent is whether nobody has it before an administrator binds it.
	latent bool
}

// role is by which a binding names it: ClusterRoles have no namespace.
type role struct{ kind, namespace, name string }

// holders are all who get rights by the objects: whom a binding names, those whose
// ClusterRole aggregates a shipped one, and whoever is bound to a role by others.
func holders(objs []*unstructured.Unstructured) (map[string]holder, error) {
	all := map[string]holder{}
	roles := map[role][]rbacv1.PolicyRule{}
	bound := map[role]bool{}
	for _, obj := range objs {
		if !isRBAC(obj, "Role", "ClusterRole") {
			continue
		}
		// The two kinds are of one shape but for aggregation.
		var r rbacv1.ClusterRole
		if err := convert(obj, &r); err != nil {
			return nil, err
		}
		roles[role{obj.GetKind(), obj.GetNamespace(), obj.GetName()}] = r.Rules
		for label, value := range obj.GetLabels() {
			if into, ok := strings.CutPrefix(label, aggregates); ok && value == "true" {
				add(all, whoever(role{"ClusterRole", "", into}), "", r.Rules, false)
				bound[role{obj.GetKind(), "", obj.GetName()}] = true
			}
		}
	}
	for _, obj := range objs {
		if !isRBAC(obj, "RoleBinding", "ClusterRoleBinding") {
			continue
		}
		var b rbacv1.ClusterRoleBinding
		if err := convert(obj, &b); err != nil {
			return nil, err
		}
		from := role{b.RoleRef.Kind, "", b.RoleRef.Name}
		if from.kind == "Role" {
			from.namespace = obj.GetNamespace()
		}
		rules, shipped := roles[from]
		bind(all, b.Subjects, from, obj.GetNamespace(), rules, shipped)
		bound[from] = true
	}
	for r, rules := range roles {
		if !bound[r] {
			add(all, whoever(r), r.namespace, rules, true)
		}
	}
	return all, nil
}

func whoever(r role) string { return "whoever has " + r.kind + " " + path.Join(r.namespace, r.name) }

// bind gives the subjects the rules of a role, in a namespace or everywhere.
func bind(all map[string]holder, subjects []rbacv1.Subject, from role, namespace string, rules []rbacv1.PolicyRule, shipped bool) {
	for _, s := range subjects {
		who := subject(s, namespace)
		add(all, who, namespace, rules, false)
		if !shipped {
			where := "everywhere"
			if namespace != "" {
				where = "in " + namespace
			}
			all[who].unknown[fmt.Sprintf("%s %s %s", from.kind, from.name, where)] = true
		}
	}
}

// subject is the name that the API server knows it by.
func subject(s rbacv1.Subject, namespace string) string {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return strings.Join([]string{"system:serviceaccount", namespace, s.Name}, ":")
	default:
		return strings.ToLower(s.Kind) + ":" + s.Name
	}
}

func add(all map[string]holder, who, namespace string, rules []rbacv1.PolicyRule, latent bool) {
	h, known := all[who]
	if !known {
		h = holder{rules: map[string][]rbacv1.PolicyRule{}, unknown: map[string]bool{}, latent: latent}
	}
	h.rules[namespace] = append(h.rules[namespace], rules...)
	h.latent = h.latent && latent
	all[who] = h
}

func isRBAC(obj *unstructured.Unstructured, kinds ...string) bool {
	for _, kind := range kinds {
		if obj.GroupVersionKind().GroupKind() == rbacv1.SchemeGroupVersion.WithKind(kind).GroupKind() {
			return true
		}
	}
	return false
}

func convert(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return fmt.Errorf("reading %s: %w", named(obj), err)
	}
	return nil
}

// right says in words what a rule of one verb and one resource allows.
func right(rule rbacv1.PolicyRule, namespace string) string {
	words := append([]string{}, rule.Verbs...)
	words = append(words, rule.NonResourceURLs...)
	for i, resource := range rule.Resources {
		if group := rule.APIGroups[i]; group != "" {
			base, sub, _ := strings.Cut(resource, "/")
			resource = path.Join(base+"."+group, sub)
		}
		words = append(words, path.Join(append([]string{resource}, rule.ResourceNames...)...))
	}
	if namespace != "" {
		words = append(words, "in", namespace)
	}
	return strings.Join(words, " ")
}

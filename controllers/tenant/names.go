package tenant

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
)

// Names of what the operator makes for a Tenant.
const (
	// adminBindingName is the RoleBinding of the admins, one in each namespace.
	adminBindingName = "leasehold:tenant-admin"
	// readerNamePrefix and the Tenant's name make the name of the ClusterRole
	// and ClusterRoleBinding by which admins read their own Tenant.
	readerNamePrefix = "leasehold:tenant-reader:"
)

// prefixOf returns the prefix in force. The webhook writes the default into the
// spec; where it did not run, the same default is derived here.
func prefixOf(t *v1beta1.Tenant) string {
	if t.Spec.NamespacePrefix != "" {
		return t.Spec.NamespacePrefix
	}
	return t.Name + "-"
}

// namespaceNames returns the full names of the namespaces asked for, in the
// order of the spec.
func namespaceNames(t *v1beta1.Tenant) []string {
	prefix := prefixOf(t)
	names := make([]string, 0, len(t.Spec.Namespaces))
	for _, suffix := range t.Spec.Namespaces {
		names = append(names, prefix+string(suffix))
	}
	return names
}

// heldNames returns the full names the Tenant asks for or still holds.
func heldNames(t *v1beta1.Tenant) []string {
	names := namespaceNames(t)
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		seen[name] = true
	}
	for _, ns := range t.Status.Namespaces {
		if !seen[ns.Name] {
			names = append(names, ns.Name)
		}
	}
	return names
}

// listedNames are the names that the status records.
func listedNames(t *v1beta1.Tenant) map[string]bool {
	names := map[string]bool{}
	for _, ns := range t.Status.Namespaces {
		names[ns.Name] = true
	}
	return names
}

// validateNames returns what is wrong with the full names of the namespaces.
// The CRD's rules say most of it at admission; it is said again here because
// those rules cannot know the operator's namespace or a prefix that was never
// written, and because the reconciler relies on it whatever admission did.
func validateNames(t *v1beta1.Tenant, operatorNamespace string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "namespaces")
	for i, name := range namespaceNames(t) {
		at, suffix := path.Index(i), string(t.Spec.Namespaces[i])
		if reserved(name) {
			errs = append(errs, field.Invalid(at, suffix, fmt.Sprintf(
				"the namespace would be called %q, and 'default' and names that start with 'kube-' or 'openshift-' are reserved; choose another name", name)))
			continue
		}
		if name == operatorNamespace {
			errs = append(errs, field.Invalid(at, suffix, fmt.Sprintf(
				"the namespace would be called %q, which is the operator's own; choose another name", name)))
			continue
		}
		for _, msg := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(at, suffix, fmt.Sprintf("the namespace would be called %q: %s", name, msg)))
		}
	}
	if n := len(heldNames(t)); n > v1beta1.MaxStatusNamespaces {
		errs = append(errs, field.TooMany(path, n, v1beta1.MaxStatusNamespaces))
	}
	return errs
}

func reserved(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift-")
}

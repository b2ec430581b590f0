package tenant

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
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

// heldSet is heldNames as a set.
func heldSet(t *v1beta1.Tenant) map[string]bool {
	set := map[string]bool{}
	for _, name := range heldNames(t) {
		set[name] = true
	}
	return set
}

// listedNames are the names that the status records, with the UID that it records, or "".
func listedNames(t *v1beta1.Tenant) map[string]types.UID {
	names := map[string]types.UID{}
	for _, ns := range t.Status.Namespaces {
		names[ns.Name] = ns.UID
	}
	return names
}

// validateNames returns what is wrong with the full names of the namespaces.
func validateNames(t *v1beta1.Tenant, operatorNamespace string) field.ErrorList {
	_, errs := refusedNames(t, operatorNamespace)
	return errs
}

// refusedNames returns the full names of the spec that may not be used, and why.
// The CRD's rules cover most of it at admission. They cannot know the operator's
// namespace or a prefix that was never written, and the reconciler relies on the
// names whatever admission did.
func refusedNames(t *v1beta1.Tenant, operatorNamespace string) (map[string]bool, field.ErrorList) {
	var errs field.ErrorList
	refused := map[string]bool{}
	path := field.NewPath("spec", "namespaces")
	names := namespaceNames(t)
	for i, name := range names {
		for _, message := range refusals(name, operatorNamespace) {
			refused[name] = true
			errs = append(errs, field.Invalid(path.Index(i), string(t.Spec.Namespaces[i]),
				fmt.Sprintf("the namespace would be called %q%s", name, message)))
		}
	}
	if n := len(heldNames(t)); n > v1beta1.MaxStatusNamespaces {
		errs = append(errs, field.TooMany(path, n, v1beta1.MaxStatusNamespaces))
		listed := listedNames(t) // these have a place in the status already
		for _, name := range names {
			if _, isListed := listed[name]; !isListed {
				refused[name] = true
			}
		}
	}
	return refused, errs
}

// refusals returns why a namespace may not have this name.
func refusals(name, operatorNamespace string) []string {
	switch {
	case reserved(name):
		return []string{", and 'default' and names that start with 'kube-' or 'openshift-' are reserved; choose another name"}
	case name == operatorNamespace:
		return []string{", which is the operator's own; choose another name"}
	}
	var messages []string
	for _, message := range validation.IsDNS1123Label(name) {
		messages = append(messages, ": "+message)
	}
	return messages
}

func reserved(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift-")
}

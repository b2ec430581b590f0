package tenant

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
)

// Names of the objects that the operator creates for a Tenant.
const (
	// adminBindingName is the name of the admins' RoleBinding in each namespace.
	adminBindingName = "leasehold:tenant-admin"
	// readerNamePrefix precedes the Tenant's name in the name of the ClusterRole and
	// ClusterRoleBinding that let admins read their own Tenant.
	readerNamePrefix = "leasehold:tenant-reader:"
)

// prefixOf returns the prefix of the namespaces. The webhook writes the default into the
// spec. If the webhook did not run, prefixOf derives the same default.
func prefixOf(t *v1beta1.Tenant) string {
	if t.Spec.NamespacePrefix != "" {
		return t.Spec.NamespacePrefix
	}
	return t.Name + "-"
}

// namespaceNames returns the full names of the namespaces of the spec, in its order.
func namespaceNames(t *v1beta1.Tenant) []string {
	prefix := prefixOf(t)
	names := make([]string, 0, len(t.Spec.Namespaces))
	for _, suffix := range t.Spec.Namespaces {
		names = append(names, prefix+string(suffix))
	}
	return names
}

// usedNames returns the full names of the namespaces of the spec, then those that only
// the status records.
func usedNames(t *v1beta1.Tenant) []string {
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

// usedNameSet returns usedNames as a set.
func usedNameSet(t *v1beta1.Tenant) map[string]bool {
	set := map[string]bool{}
	for _, name := range usedNames(t) {
		set[name] = true
	}
	return set
}

// recordedUIDs maps each namespace name of the status to its UID, which may be "".
func recordedUIDs(t *v1beta1.Tenant) map[string]types.UID {
	names := map[string]types.UID{}
	for _, ns := range t.Status.Namespaces {
		names[ns.Name] = ns.UID
	}
	return names
}

// recordedReason returns the reason of a namespace in a status, or "".
func recordedReason(status v1beta1.TenantStatus, name string) string {
	for _, ns := range status.Namespaces {
		if ns.Name == name {
			return ns.Reason
		}
	}
	return ""
}

// refusedNames returns the full names of the spec that are refused, and their errors. The
// CRD's rules check most of this at admission. They cannot check the operator's namespace
// or a default prefix. The reconciler must not depend on admission, so it checks again.
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
	if n := len(usedNames(t)); n > v1beta1.MaxStatusNamespaces {
		errs = append(errs, field.TooMany(path, n, v1beta1.MaxStatusNamespaces))
		listed := recordedUIDs(t) // they count towards the limit already
		for _, name := range names {
			if _, isListed := listed[name]; !isListed {
				refused[name] = true
			}
		}
	}
	return refused, errs
}

// refusals returns the reasons why a namespace must not have this name.
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

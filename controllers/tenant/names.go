package tenant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
)

// Names of the objects that the operator creates for a Tenant.
const (
	// adminBindingName is the name of the admins' RoleBinding in each namespace.
	adminBindingName = "leasehold:tenant-admin"
	// readerNamePrefix begins the name of the ClusterRole and ClusterRoleBinding to read the own Tenant.
	readerNamePrefix = "leasehold:tenant-reader:"
)

// prefixOf returns the prefix of the namespaces. The webhook, if it runs, writes the default into the spec.
func prefixOf(t *v1beta1.Tenant) string { return cmp.Or(t.Spec.NamespacePrefix, t.Name+"-") }

// namespaceNames returns the full names of the namespaces of the spec, in its order.
func namespaceNames(t *v1beta1.Tenant) []string {
	prefix := prefixOf(t)
	names := make([]string, 0, len(t.Spec.Namespaces))
	for _, suffix := range t.Spec.Namespaces {
		names = append(names, prefix+string(suffix))
	}
	return names
}

// usedNames returns the full names of the namespaces of the spec, then those that only the status records.
func usedNames(t *v1beta1.Tenant) []string {
	names := namespaceNames(t)
	inSpec := sets.New(names...)
	for _, ns := range t.Status.Namespaces {
		if !inSpec.Has(ns.Name) {
			names = append(names, ns.Name)
		}
	}
	return names
}

// recordedUIDs maps each namespace name of the status to its UID, which may be "".
func recordedUIDs(t *v1beta1.Tenant) map[string]types.UID {
	names := map[string]types.UID{}
	for _, ns := range t.Status.Namespaces {
		names[ns.Name] = ns.UID
	}
	return names
}

// ownedNames returns the names of the namespaces that the Tenant owns according to its status.
func ownedNames(t *v1beta1.Tenant) []string {
	var names []string
	for _, ns := range t.Status.Namespaces {
		if ns.UID != "" {
			names = append(names, ns.Name)
		}
	}
	return names
}

// recordedReason returns the reason of a namespace in a status, or "".
func recordedReason(status v1beta1.TenantStatus, name string) string {
	i := slices.IndexFunc(status.Namespaces, func(ns v1beta1.TenantNamespace) bool { return ns.Name == name })
	if i < 0 {
		return ""
	}
	return status.Namespaces[i].Reason
}

// refusedNames returns the full names of the spec that are refused, and their errors. The rules of the CRD
// cannot check the operator's namespace or a default prefix, and the reconciler does not rely on admission.
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
	messages := validation.IsDNS1123Label(name)
	for i := range messages {
		messages[i] = ": " + messages[i]
	}
	return messages
}

func reserved(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift-")
}

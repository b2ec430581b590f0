// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"cmp"
	"fmt"
	"path"
	"strings"

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

// recorded returns the namespaces of the status by name. Their UIDs may be "".
func recorded(t *v1beta1.Tenant) map[string]v1beta1.TenantNamespace {
	names := map[string]v1beta1.TenantNamespace{}
	for _, ns := range t.Status.Namespaces {
		names[ns.Name] = ns
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

// wantedNames maps each full namespace name of the spec to whether it is allowed, and returns an error for each name
// that is not. The rules of the CRD cannot check the operator's namespace or a default prefix, and the reconciler does
// not rely on admission.
func wantedNames(t *v1beta1.Tenant, o Options) (map[string]bool, field.ErrorList) {
	var errs field.ErrorList
	wanted := map[string]bool{}
	at := field.NewPath("spec", "namespaces")
	names := namespaceNames(t)
	for i, name := range names {
		reason := nameError(name, o)
		if wanted[name] = reason == ""; reason != "" {
			errs = append(errs, field.Invalid(at.Index(i), string(t.Spec.Namespaces[i]),
				fmt.Sprintf("the namespace would be named %q: %s", name, reason)))
		}
	}
	if n := len(usedNames(t)); n > v1beta1.MaxStatusNamespaces {
		errs = append(errs, field.TooMany(at, n, v1beta1.MaxStatusNamespaces))
		listed := recorded(t) // they count towards the limit already
		for _, name := range names {
			if _, isListed := listed[name]; !isListed {
				wanted[name] = false
			}
		}
	}
	return wanted, errs
}

// nameError returns why a namespace must not have this name, or "".
func nameError(name string, o Options) string {
	switch {
	case reserved(name):
		return "'default' and names that start with 'kube-' or 'openshift-' are reserved; choose another name"
	case name == o.OperatorNamespace:
		return "the operator runs in this namespace; choose another name"
	}
	for _, pattern := range o.ReservedNamespaces {
		if matches, err := path.Match(pattern, name); matches || err != nil {
			return fmt.Sprintf("the operator's flag --tenant-reserved-namespaces reserves %s; choose another name", pattern)
		}
	}
	return strings.Join(validation.IsDNS1123Label(name), "; ")
}

func reserved(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "openshift-")
}

package subject

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
)

// CompanionSpec is the program of another Deployment than the subject's.
type CompanionSpec struct {
	// Build makes the binary. Without, it has to be there.
	Build *Build `json:"build,omitempty"`
	// Binary is the program that the replica runs.
	Binary string `json:"binary"`
	// Args follow the arguments of the Deployment, and have the placeholders of File.Args.
	Args []string `json:"args,omitempty"`
	// Env is added to the environment of the replica, as File.Env.
	Env map[string]string `json:"env,omitempty"`
}

func (f *File) checkCompanions() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(f.Companions)) {
		c := f.Companions[name]
		if c.Binary == "" {
			errs = append(errs, fmt.Errorf("companions[%s].binary: name the program that the Deployment runs", name))
		}
		if c.Build != nil && c.Build.Package == "" {
			errs = append(errs, fmt.Errorf("companions[%s].build.package: name the Go package to build", name))
		}
		if name == f.Deployment {
			errs = append(errs, fmt.Errorf("companions[%s]: it is the subject's, whose program is in binary", name))
		}
		errs = append(errs, checkPlaceholders(c.Args, c.Env)...)
	}
	return errs
}

// buildCompanions builds the programs of companions. It rebuilds existing ones only if again is
// true.
func (f *File) buildCompanions(ctx context.Context, again bool) error {
	for _, name := range slices.Sorted(maps.Keys(f.Companions)) {
		c := f.Companions[name]
		binary := f.path(c.Binary)
		if _, err := os.Stat(binary); c.Build != nil && !again && err == nil {
			continue
		}
		if err := f.makeProgram(ctx, c.Build, binary); err != nil {
			return fmt.Errorf("companions[%s]: %w", name, err)
		}
	}
	return nil
}

// companions are the programs beside the subject's.
func (f *File) companions(deployments []appsv1.Deployment) map[string]env.Companion {
	all := map[string]env.Companion{}
	for _, d := range deployments {
		if c, found := f.Companions[d.Name]; found {
			args, variables := filled(c.Args, c.Env, d.Namespace)
			all[d.Name] = env.Companion{Binary: f.path(c.Binary), Args: args, Env: variables}
		}
	}
	return all
}

// choose returns the Deployment that is the subject, and notes about those that do not run.
func (f *File) choose(deployments []appsv1.Deployment,
	objects []*unstructured.Unstructured) (appsv1.Deployment, []string, error) {
	var names, notes []string
	for _, d := range deployments {
		names = append(names, d.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Companions)) {
		if !slices.Contains(names, name) {
			return appsv1.Deployment{}, nil,
				fmt.Errorf("companions[%s]: the manifests have no such Deployment; they have %s", name, strings.Join(names, ", "))
		}
	}
	candidates, err := f.candidates(deployments, objects)
	if err != nil {
		return appsv1.Deployment{}, nil, err
	}
	if len(candidates) != 1 {
		return appsv1.Deployment{}, nil,
			fmt.Errorf("deployment: the manifests have the Deployments %s: write here which one is the subject, "+
				"and the programs of the others in companions", strings.Join(names, ", "))
	}
	for _, name := range names {
		if _, runs := f.Companions[name]; !runs && name != candidates[0].Name {
			notes = append(notes, fmt.Sprintf("the Deployment %s does not run: companions in the subject has no program for it",
				name))
		}
	}
	return candidates[0], notes, nil
}

// candidates are the Deployments that may be the subject: the named one; or those that are no
// companions, and if there are several, those of them whose ServiceAccounts may write the Lease.
func (f *File) candidates(deployments []appsv1.Deployment,
	objects []*unstructured.Unstructured) ([]appsv1.Deployment, error) {
	rest := slices.Clone(deployments)
	if f.Deployment != "" {
		return slices.DeleteFunc(rest, func(d appsv1.Deployment) bool { return d.Name != f.Deployment }), nil
	}
	rest = slices.DeleteFunc(rest, func(d appsv1.Deployment) bool { _, is := f.Companions[d.Name]; return is })
	if len(rest) < 2 {
		return rest, nil
	}
	rights, err := readRights(objects)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rest, func(d appsv1.Deployment) bool { return !rights.mayWrite(d, f.Contract.Lease) }), nil
}

// rights are the roles and bindings of an installation. Aggregated roles have no rules there.
type rights struct {
	bindings []binding
	rules    map[rbacKey][]rbacv1.PolicyRule
}

// rbacKey identifies a Role, or a ClusterRole without a namespace.
type rbacKey struct{ namespace, name string }

// binding is a RoleBinding, or a ClusterRoleBinding without a namespace.
type binding struct {
	namespace string
	role      rbacKey
	subjects  []rbacv1.Subject
}

func readRights(objects []*unstructured.Unstructured) (*rights, error) {
	r := &rights{rules: map[rbacKey][]rbacv1.PolicyRule{}}
	for _, o := range objects {
		if o.GroupVersionKind().Group != rbacv1.GroupName {
			continue
		}
		var fields struct {
			Rules    []rbacv1.PolicyRule `json:"rules"`
			Subjects []rbacv1.Subject    `json:"subjects"`
			RoleRef  rbacv1.RoleRef      `json:"roleRef"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &fields); err != nil {
			return nil, fmt.Errorf("decoding %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if strings.HasSuffix(o.GetKind(), "Role") {
			r.rules[rbacKey{o.GetNamespace(), o.GetName()}] = fields.Rules
			continue
		}
		role := rbacKey{name: fields.RoleRef.Name}
		if fields.RoleRef.Kind == "Role" {
			role.namespace = o.GetNamespace()
		}
		r.bindings = append(r.bindings, binding{o.GetNamespace(), role, fields.Subjects})
	}
	return r, nil
}

// mayWrite reports whether a Deployment's Pods may write the Lease of an election.
func (r *rights) mayWrite(d appsv1.Deployment, lease history.Key) bool {
	namespace := cmp.Or(lease.Namespace, d.Namespace)
	return slices.ContainsFunc(r.bindings, func(b binding) bool {
		isBound := slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == d.Spec.Template.Spec.ServiceAccountName &&
				cmp.Or(s.Namespace, b.namespace) == d.Namespace
		})
		return isBound && (b.namespace == "" || b.namespace == namespace) &&
			slices.ContainsFunc(r.rules[b.role], func(rule rbacv1.PolicyRule) bool { return writes(rule, lease) })
	})
}

// writes reports whether a rule allows to write a Lease.
func writes(rule rbacv1.PolicyRule, lease history.Key) bool {
	has := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == "*" || slices.Contains(wanted, s) })
	}
	resource := lease.Resource
	if resource == (history.Resource{}) {
		resource = history.Leases
	}
	return has(rule.APIGroups, resource.Group) && has(rule.Resources, resource.Resource) &&
		has(rule.Verbs, "update", "patch") &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, lease.Name))
}

// checkPlaceholders finds placeholders in arguments and variables that nothing is put in for.
func checkPlaceholders(args []string, variables map[string]string) []error {
	var errs []error
	for _, arg := range args {
		errs = append(errs, known(arg, "namespace", "probe", "metrics", "webhook"))
	}
	for _, value := range variables {
		errs = append(errs, known(value, "namespace"))
	}
	return errs
}

// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/external"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

// Suite is a subject with its scenarios: what a file describes, complete.
type Suite struct {
	run.Subject
	Name      string
	Scenarios []scenario.Scenario
	// Notes report what differs from an installation in a cluster.
	Notes []string
}

// Load reads a subject and its scenarios, builds its binary if the file specifies how, and derives
// missing fields from the manifests. A non-empty binary, relative to the working directory,
// replaces the file's; an existing program is not built then.
func Load(ctx context.Context, path, binary string) (*Suite, error) {
	f, err := Read(path)
	if err != nil {
		return nil, err
	}
	if binary != "" {
		f.Build = nil
		if f.Binary, err = filepath.Abs(binary); err != nil {
			return nil, fmt.Errorf("looking for the program in place of the subject's: %w", err)
		}
	}
	if err := f.makeProgram(ctx); err != nil {
		return nil, fmt.Errorf("building the subject %s: %w", f.Name, err)
	}
	s, err := f.install(ctx)
	if err != nil {
		return nil, fmt.Errorf("completing the subject %s: %w", f.Name, err)
	}
	if s.Scenarios, err = f.scenarios(); err == nil {
		err = checkKinds(s.Plane.Definitions, s.Scenarios)
	}
	if err != nil {
		return nil, fmt.Errorf("completing the subject %s: %w", f.Name, err)
	}
	return s, nil
}

// install is the subject as its manifests install it.
func (f *File) install(ctx context.Context) (*Suite, error) {
	chart, err := f.chart()
	if err != nil {
		return nil, err
	}
	install := env.InstallOptions{Manifests: f.path(f.Manifests), Chart: chart, Deployment: f.Deployment}
	objects, notes, err := install.Render(ctx)
	if err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
	}
	s, err := f.complete(objects)
	if err != nil {
		return nil, err
	}
	s.Operator.Chart, s.Operator.Objects, s.Notes = chart, objects, slices.Concat(notes, s.Notes)
	return s, nil
}

// makeProgram builds the program, or makes sure that it is there.
func (f *File) makeProgram(ctx context.Context) error {
	binary := f.path(f.Binary)
	if f.Build == nil {
		info, err := os.Stat(binary)
		switch {
		case err != nil:
			return fmt.Errorf("binary: %w; build it, or say in build how", err)
		case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
			return fmt.Errorf("binary: %s is no program", binary)
		}
		return nil
	}
	args := slices.Concat([]string{"build", "-o", binary}, f.Build.Flags, []string{f.Build.Package})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = cmp.Or(f.path(f.Build.Dir), f.dir)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running go %q in %s: %w\n%s", args, cmd.Dir, err, output)
	}
	return nil
}

// complete fills the gaps of the file from the manifests.
func (f *File) complete(objects []*unstructured.Unstructured) (*Suite, error) {
	deployments, err := env.Deployments(objects)
	if err != nil {
		return nil, fmt.Errorf("manifests: %s: %w", f.Manifests, err)
	}
	deployment, err := env.TheDeployment(objects, f.Deployment)
	if err != nil {
		return nil, fmt.Errorf("deployment: %w; write here which one is the subject", err)
	}
	definitions, err := f.definitions(objects)
	if err != nil {
		return nil, err
	}
	if err := f.defined(definitions); err != nil {
		return nil, err
	}
	s := &Suite{Name: f.Name}
	for _, d := range deployments {
		if d.Name != deployment.Name {
			s.Notes = append(s.Notes, fmt.Sprintf("the Deployment %s does not run: the subject is %s", d.Name, deployment.Name))
		}
	}
	s.Replicas, s.Contract = f.Replicas, f.Contract
	s.Contract.Watched, s.Contract.Except = f.Watched, f.Except
	s.ReleaseLease = f.ReleaseLease
	s.Previous = f.path(f.Previous)
	if len(s.Contract.Users) == 0 {
		s.Contract.Users = []string{
			serviceaccount.MakeUsername(deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName),
		}
	}
	lease := &s.Contract.Lease
	if lease.Resource == (history.Resource{}) {
		lease.Resource = history.Leases
	}
	if lease.Namespace == "" {
		lease.Namespace = deployment.Namespace
	}
	s.Plane = env.Options{Definitions: definitions, AuditGroups: f.auditGroups()}
	if f.Node != nil {
		s.Plane.Controllers, s.Node = f.Node.Controllers, &env.NodeOptions{StandIn: true, Jobs: f.Node.Jobs}
		if len(s.Plane.Controllers) == 0 {
			s.Plane.Controllers = env.WorkloadControllers
		}
	}
	if f.External != nil {
		s.External = external.S3(f.External.S3.OwnerTag)
	}
	s.Operator = env.InstallOptions{
		Manifests: f.path(f.Manifests), Binary: f.path(f.Binary), Isolated: f.isolates(),
		Deployment: deployment.Name, WorkingDir: f.path(f.WorkingDir),
	}
	s.Operator.Args, s.Operator.Env = filled(f.Args, f.Env, deployment.Namespace)
	return s, nil
}

// filled are arguments and variables of a program in a namespace.
func filled(args []string, variables map[string]string, namespace string) (func(env.ReplicaPorts) []string, []string) {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		list = append(list, name+"="+scenario.Fill(variables[name], map[string]string{"namespace": namespace}))
	}
	return func(p env.ReplicaPorts) []string {
		values := map[string]string{
			"namespace": namespace,
			"probe":     strconv.Itoa(p.Probe), "metrics": strconv.Itoa(p.Metrics), "webhook": strconv.Itoa(p.Webhook),
		}
		var all []string
		for _, arg := range args {
			all = append(all, scenario.Fill(arg, values))
		}
		return all
	}, list
}

// auditGroups are those of the promises and those that are watched.
func (f *File) auditGroups() []string {
	var groups []string
	for _, r := range slices.Concat(f.Contract.Resources(), f.Watched) {
		groups = append(groups, r.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Definitions returns the CustomResourceDefinitions among the objects of an installation.
func Definitions(objects []*unstructured.Unstructured) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			return nil, fmt.Errorf("decoding CustomResourceDefinition %s: %w", o.GetName(), err)
		}
		all = append(all, d)
	}
	return all, nil
}

// ReadDefinitions returns the CustomResourceDefinitions of files and folders.
func ReadDefinitions(paths []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		read, err := env.ReadYAML(path)
		if err != nil {
			return nil, err
		}
		objects = append(objects, read...)
	}
	return Definitions(objects)
}

// defined finds kinds and children that no API server has, which are usually misspelled.
func (f *File) defined(definitions []*apiextensionsv1.CustomResourceDefinition) error {
	var there []string
	for _, d := range definitions {
		there = append(there, d.Spec.Names.Plural+"."+d.Spec.Group)
	}
	var errs []error
	for _, r := range f.Contract.Resources() {
		if !clientgoscheme.Scheme.IsGroupRegistered(r.Group) && !slices.Contains(there, r.String()) {
			errs = append(errs, fmt.Errorf(
				"contract.kinds: %s: Kubernetes has no such group, and the manifests and crds define %q only", r, there))
		}
	}
	return errors.Join(errs...)
}

// placeholder is a word in braces.
var placeholder = regexp.MustCompile(`\{[a-zA-Z]+\}`)

// known finds placeholders that nothing is put in for.
func known(text string, names ...string) error {
	for _, found := range placeholder.FindAllString(text, -1) {
		if !slices.Contains(names, strings.Trim(found, "{}")) {
			return fmt.Errorf("args and env: %q: nothing is known as %s here; known are %q", text, found, names)
		}
	}
	return nil
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

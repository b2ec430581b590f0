// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/subject"
)

// helpTimeout bounds a program that prints its flags.
const helpTimeout = 10 * time.Second

// propose drafts the description from what the operator ships.
func propose(ctx context.Context, o Options, output io.Writer) (*Draft, error) {
	d := &Draft{Options: o}
	install, err := d.installation()
	if err != nil {
		return nil, err
	}
	objects, notes, err := install.Render(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	for _, note := range notes {
		fmt.Fprintln(output, note)
	}
	deployment, err := env.TheDeployment(objects, o.Deployment)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %s: %w; name a folder with the whole installation, and the Deployment of --binary "+
			"with --deployment", o.Manifests, err)
	}
	definitions, err := o.definitions(objects)
	if err != nil {
		return nil, err
	}
	samples, err := readSamples(o.Samples, objects)
	if err != nil {
		return nil, fmt.Errorf("reading --samples: %w", err)
	}
	if d.Kinds, err = Kinds(definitions, samples); err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	if d.Name == "" {
		d.Name = nameOf(deployment)
	}
	pod := deployment.Spec.Template.Spec
	if pod.TerminationGracePeriodSeconds != nil {
		d.Grace = *pod.TerminationGracePeriodSeconds
	}
	args := env.ProgramArgs(pod.Containers[0])
	help, err := helpOf(ctx, o.Binary, subcommands(args)...)
	if err != nil {
		return nil, err
	}
	d.Arguments = Arguments(help, args, env.ProbePort(pod.Containers[0]))
	for _, text := range o.Args { // the last one of a flag counts
		d.Arguments = append(d.Arguments, Argument{Text: text})
	}
	return d, nil
}

// installation is how to install the operator. A release needs a name before the Deployment is known.
func (d *Draft) installation() (env.InstallOptions, error) {
	install := env.InstallOptions{Manifests: d.Manifests, Deployment: d.Deployment}
	switch {
	case env.IsChart(d.Manifests):
		d.Name, _, _ = strings.Cut(filepath.Base(d.Manifests), ".")
		install.Chart = env.Chart{Release: d.Name, Namespace: d.Name}
	case d.Values != "":
		return install, fmt.Errorf("--values=%s: %s is not a Helm chart", d.Values, d.Manifests)
	}
	if d.Values != "" {
		text, err := os.ReadFile(d.Values)
		if err != nil {
			return install, fmt.Errorf("reading --values: %w", err)
		}
		install.Chart.Values = text
	}
	return install, nil
}

// definitions are those of the manifests. Where these have none, as of an operator whose definitions are a chart of
// their own, they are those of --crds; --kind selects from both.
func (o *Options) definitions(manifests []*unstructured.Unstructured) (
	[]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := subject.Definitions(manifests)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	if len(all) == 0 || len(o.Kinds) > 0 {
		others, err := subject.ReadDefinitions(o.CRDs)
		if err != nil {
			return nil, fmt.Errorf("reading --crds: %w", err)
		}
		all = append(all, others...)
	}
	var known []string
	for _, d := range all {
		known = append(known, d.Spec.Names.Kind)
	}
	for _, kind := range o.Kinds {
		if !slices.Contains(known, kind) {
			return nil, fmt.Errorf("--kind=%s: the manifests define %s", kind, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return len(o.Kinds) > 0 && !slices.Contains(o.Kinds, d.Spec.Names.Kind)
	}), nil
}

func nameOf(d appsv1.Deployment) string {
	if name := strings.TrimSuffix(d.Namespace, "-system"); name != "" && name != "default" {
		return name
	}
	return d.Name
}

// subcommands are the arguments before the first flag.
func subcommands(args []string) []string {
	if i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }); i >= 0 {
		return args[:i]
	}
	return args
}

// helpOf returns the description that the program, or its subcommand, has of its flags, with any
// exit code.
func helpOf(ctx context.Context, binary string, subcommands ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, helpTimeout)
	defer cancel()
	said, err := exec.CommandContext(ctx, binary, append(slices.Clone(subcommands), "--help")...).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return "", fmt.Errorf("reading the flags of %s: %w; name a program of this machine's kind with --binary", binary, err)
	}
	return string(said), nil
}

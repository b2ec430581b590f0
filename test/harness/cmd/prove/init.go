// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/subject"
)

// helpTimeout bounds a program that prints its flags.
const helpTimeout = 10 * time.Second

// initOptions are the command line of init.
type initOptions struct {
	dir, name                  string
	manifests, binary, samples string
	deployment                 string
	crds                       []string
	env                        map[string]string // of the program, besides the Deployment's
	args                       []string          // of the program, after the Deployment's
	values                     string            // a file, for a chart
	workingDir                 string            // of the program
	kinds                      []string          // empty: all
	seed                       uint64
	overwrite                  bool
}

// newInit returns the command that describes an operator.
func newInit(work func(ctx context.Context, o initOptions, output io.Writer) error) *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init MANIFESTS --binary PROGRAM",
		Short: "Draft subject.yaml and scenarios for each kind of an operator",
		Long: `init runs an operator and writes subject.yaml, and two scenarios for each kind: one that creates and deletes
an object, and one that changes the object and reverts the change.
MANIFESTS is the kustomize directory, YAML files or Helm chart of the whole installation; to combine several, list
them in a kustomization. An example of a kind is applied with the other objects of its file. The annotation
` + learn.AsAnnotation + ` names the user that creates an object, if an administrator is not allowed to create it.`,
		Example: `  prove init config/default --binary bin/manager
  prove init config/default --binary bin/manager --subject test/prove`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.manifests = args[0]
			if err := o.complete(); err != nil {
				return err
			}
			return work(c.Context(), o, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.dir, "subject", "prove", "directory to write subject.yaml and the scenarios to")
	flags.StringVar(&o.binary, "binary", "", "program of the operator")
	flags.StringVar(&o.workingDir, "working-dir", "", "working directory of the program, like WORKDIR of its image")
	flags.StringVar(&o.samples, "samples", "",
		"file or directory that contains an example of each kind; if empty, the directory samples beside the "+
			"manifests, if it exists")
	flags.StringVar(&o.name, "name", "", "name of the operator; defaults to the name of its namespace")
	flags.StringVar(&o.deployment, "deployment", "", "name of the Deployment that runs the program; required if the "+
		"manifests contain several Deployments")
	flags.StringArrayVar(&o.crds, "crds", nil,
		"file or directory with CustomResourceDefinitions that the manifests do not contain; may be repeated")
	flags.StringToStringVar(&o.env, "env", map[string]string{},
		"environment variable of the program as NAME=VALUE; overrides a variable of the Deployment; may be repeated")
	flags.StringArrayVar(&o.args, "args", nil,
		"argument to append to the arguments of the Deployment, such as --args=--zone=a; may be repeated")
	flags.StringVar(&o.values, "values", "", "values file, if the manifests are a Helm chart")
	flags.StringArrayVar(&o.kinds, "kind", nil, "kind to describe, such as Backup; may be repeated; if not set, all "+
		"kinds are described")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of all random choices; 0 chooses a new seed")
	flags.BoolVar(&o.overwrite, "overwrite", false, "overwrite existing files")
	return c
}

// complete checks the paths and makes them absolute.
func (o *initOptions) complete() error {
	o.seed = program.Seed(o.seed)
	switch {
	case o.dir == "" || filepath.Ext(o.dir) == ".yaml":
		return fmt.Errorf("--subject=%q is not a directory; name a directory for subject.yaml and its scenarios",
			o.dir)
	case o.binary == "":
		return errors.New("--binary is missing; build the operator and set --binary to the program")
	}
	if o.samples == "" {
		beside := filepath.Join(o.manifests, "..", "samples")
		if info, err := os.Stat(beside); err == nil && info.IsDir() {
			o.samples = beside
		}
	}
	for _, path := range o.paths() {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
		if _, err := os.Stat(absolute); err != nil && path != &o.dir && path != &o.binary {
			return fmt.Errorf("reading the arguments: %w", err)
		}
	}
	if !isProgram(o.binary) {
		return fmt.Errorf("--binary=%s is not an executable program; build the operator first", o.binary)
	}
	file := filepath.Join(o.dir, "subject.yaml")
	if _, err := os.Stat(file); err == nil && !o.overwrite {
		return fmt.Errorf("%s already exists; choose another directory, or overwrite the file with --overwrite", file)
	}
	if err := checkWritable(filepath.Join(o.dir, "scenarios")); err != nil {
		return fmt.Errorf("--subject=%s cannot be written: %w", o.dir, err)
	}
	return nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func (o *initOptions) paths() []*string {
	all := []*string{&o.dir, &o.manifests, &o.binary, &o.samples, &o.values, &o.workingDir}
	for i := range o.crds {
		all = append(all, &o.crds[i])
	}
	return all
}

// describe writes the subject and the scenarios of an operator that has none.
func describe(ctx context.Context, o initOptions, output io.Writer) (err error) {
	log.SetLogger(logr.Discard())
	progress := newTimedWriter(output, time.Now)
	if err := ensure(ctx, env.IsChart(o.manifests), false, progress); err != nil {
		return err
	}
	d, err := propose(ctx, o, progress)
	if err != nil {
		return err
	}
	if !o.overwrite {
		if err := checkAbsent(o.dir, d); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp("", "prove-init-")
	if err != nil {
		return fmt.Errorf("describing %s: %w", d.Name, err)
	}
	l := &learner{draft: d, dir: work, random: rand.New(rand.NewPCG(o.seed, 0)), output: progress, target: o.dir}
	defer func() {
		if !l.kept {
			_ = os.RemoveAll(work) // the system's folder for temporary files
		}
	}()
	clientLog, err := program.LogTo(work)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clientLog.Close()) }()
	if err := l.learn(ctx); err != nil {
		return fmt.Errorf("describing %s: %w", d.Name, err)
	}
	if err := o.relative(d); err != nil {
		return err
	}
	// Scenarios that are there are those of this run, or may be replaced.
	written, err := write(o.dir, d)
	if err != nil {
		return err
	}
	for _, file := range written {
		fmt.Fprintf(output, "wrote %s\n", file)
	}
	fmt.Fprintf(output, "review the lines that contain the word guess, then run: %s --subject %s\n",
		commandName(), program.Quote(filepath.Join(o.dir, "subject.yaml")))
	return l.undone
}

// propose drafts the description from what the operator ships.
func propose(ctx context.Context, o initOptions, output io.Writer) (*learn.Draft, error) {
	name := o.name
	if name == "" && env.IsChart(o.manifests) {
		// A release needs a name before the Deployment is known.
		name, _, _ = strings.Cut(filepath.Base(o.manifests), ".")
	}
	chart := env.Chart{Release: name, Namespace: name}
	if o.values != "" {
		if !env.IsChart(o.manifests) {
			return nil, fmt.Errorf("--values=%s: %s is not a Helm chart", o.values, o.manifests)
		}
		text, err := os.ReadFile(o.values)
		if err != nil {
			return nil, fmt.Errorf("reading --values: %w", err)
		}
		chart.Values = text
	}
	install := env.InstallOptions{Manifests: o.manifests, Chart: chart, Deployment: o.deployment}
	objects, notes, err := install.Render(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	for _, note := range notes {
		fmt.Fprintln(output, note)
	}
	deployment, err := env.TheDeployment(objects, o.deployment)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %s: %w; name a folder with the whole installation, and the Deployment of --binary "+
			"with --deployment", o.manifests, err)
	}
	definitions, err := o.definitions(objects)
	if err != nil {
		return nil, err
	}
	samples, err := readSamples(o.samples)
	if err != nil {
		return nil, fmt.Errorf("reading --samples: %w", err)
	}
	for i, s := range samples {
		samples[i].Objects = append(env.MissingNamespaces(slices.Concat(objects, s.Objects)), s.Objects...)
	}
	d := &learn.Draft{Name: name, Binary: o.binary, Manifests: o.manifests, Deployment: o.deployment,
		CRDs: o.crds, Env: o.env, Values: o.values, WorkingDir: o.workingDir,
		Node: makesWorkloads(objects)}
	if definitions, err = chosenKinds(definitions, o.kinds); err != nil {
		return nil, err
	}
	if d.Kinds, err = learn.Kinds(definitions, samples); err != nil {
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
	help, err := helpOf(ctx, o.binary, subcommands(args)...)
	if err != nil {
		return nil, err
	}
	chosen := learn.Arguments(help, args, env.ProbePort(pod.Containers[0]))
	d.Arguments = learn.ReplaceArguments(chosen, o.args)
	return d, nil
}

// definitions are those of the manifests. Where these have none, as of an operator whose
// definitions are a chart of their own, they are those of --crds; --kind selects from both.
func (o *initOptions) definitions(manifests []*unstructured.Unstructured) (
	[]*apiextensionsv1.CustomResourceDefinition, error) {
	own, err := subject.Definitions(manifests)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	if len(own) > 0 && len(o.kinds) == 0 {
		return own, nil
	}
	others, err := subject.ReadDefinitions(o.crds)
	if err != nil {
		return nil, fmt.Errorf("reading --crds: %w", err)
	}
	return append(own, others...), nil
}

// makesWorkloads reports whether a role of the manifests allows the creation of what has Pods or
// volumes. Without a node, such an object would never be ready.
func makesWorkloads(objects []*unstructured.Unstructured) bool {
	with := []string{"pods", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs",
		"persistentvolumeclaims", "*"}
	verbs := []string{"create", "patch", "*"}
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		var role rbacv1.ClusterRole
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role) != nil {
			continue // the API server reports it
		}
		for _, rule := range role.Rules {
			if slices.ContainsFunc(rule.Resources, func(r string) bool { return slices.Contains(with, r) }) &&
				slices.ContainsFunc(rule.Verbs, func(v string) bool { return slices.Contains(verbs, v) }) {
				return true
			}
		}
	}
	return false
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

// readSamples reads the files *.yaml of a folder, or one file.
func readSamples(path string) ([]learn.Sample, error) {
	if path == "" {
		return nil, nil
	}
	var samples []learn.Sample
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".yaml") && !strings.HasSuffix(file, ".yml") {
			return err
		}
		s := learn.Sample{File: file}
		text, err := os.Open(file)
		if err != nil {
			return err
		}
		defer text.Close() //nolint:errcheck // it is only read
		decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
		for {
			o := &unstructured.Unstructured{}
			err := decoder.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			if o.GetKind() != "" && o.GetKind() != "Kustomization" {
				s.Objects = append(s.Objects, o)
			}
		}
		samples = append(samples, s)
		return nil
	})
	return samples, err
}

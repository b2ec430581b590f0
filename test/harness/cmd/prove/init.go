// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/program"
)

// newInit returns the command that describes an operator.
func newInit(work func(ctx context.Context, o learn.Options, output io.Writer) error) *cobra.Command {
	var o learn.Options
	c := &cobra.Command{
		Use:   "init MANIFESTS --binary PROGRAM",
		Short: "Draft subject.yaml and scenarios for each kind of an operator",
		Long: `init runs an operator and writes subject.yaml, and two scenarios for each kind: one that creates and deletes
an object, and one that changes the object and reverts the change.
MANIFESTS is the kustomize directory, YAML files or Helm chart of the whole installation; to combine several, list
them in a kustomization. An example of a kind is applied with the other objects of its file, and with the objects of
other files that these refer to by name. If the operator does nothing with it, or the API server refuses it, init
tries the names of the samples, and then all samples together. If nothing was learned from a sample, the exit code
is 2.`,
		Example: `  prove init config/default --binary bin/manager
  prove init config/default --binary bin/manager --subject test/prove`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Manifests = args[0]
			if err := o.Complete(); err != nil {
				return err
			}
			return work(c.Context(), o, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.Dir, "subject", "prove", "directory to write subject.yaml and the scenarios to")
	flags.StringVar(&o.Binary, "binary", "", "program of the operator")
	flags.StringVar(&o.WorkingDir, "working-dir", "", "working directory of the program, like WORKDIR of its image")
	flags.StringVar(&o.Samples, "samples", "",
		"file or directory that contains an example of each kind; if empty, the directory samples beside the "+
			"manifests, if it exists")
	flags.StringVar(&o.Deployment, "deployment", "", "name of the Deployment that runs the program; required if the "+
		"manifests contain several Deployments")
	flags.StringArrayVar(&o.CRDs, "crds", nil,
		"file or directory with CustomResourceDefinitions that the manifests do not contain; may be repeated")
	flags.StringToStringVar(&o.Env, "env", map[string]string{},
		"environment variable of the program as NAME=VALUE; overrides a variable of the Deployment; may be repeated")
	flags.StringArrayVar(&o.Args, "args", nil,
		"argument to append to the arguments of the Deployment, such as --args=--zone=a; may be repeated")
	flags.StringVar(&o.Values, "values", "", "values file, if the manifests are a Helm chart")
	flags.StringArrayVar(&o.Kinds, "kind", nil, "kind to describe, such as Backup; may be repeated; if not set, all "+
		"kinds are described")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of all random choices; 0 chooses a new seed")
	flags.BoolVar(&o.Overwrite, "overwrite", false, "overwrite existing files")
	return c
}

// describe writes the subject and the scenarios of an operator. The manifests are rendered after the build of the
// control plane, because kustomize is a part of its kubectl.
func describe(ctx context.Context, o learn.Options, output io.Writer) error {
	if err := ensure(ctx, env.IsChart(o.Manifests), false, output); err != nil {
		return err
	}
	if err := learn.Init(ctx, o, output); err != nil {
		return err
	}
	fmt.Fprintf(output, "review the lines that contain the word guess, then run: %s --subject %s\n",
		commandName(), program.Quote(filepath.Join(o.Dir, "subject.yaml")))
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Options are what Init is told about an operator. Paths are those of files and directories.
type Options struct {
	// Dir is where the description is written to.
	Dir string
	// Manifests are of the whole installation, Binary is the program, and Samples are examples of the kinds.
	Manifests, Binary, Samples string
	// Deployment is the one that runs the program; empty if the manifests have no other.
	Deployment string
	// CRDs define kinds that the manifests do not define.
	CRDs []string
	// Env and Args are those of the program besides the Deployment's.
	Env  map[string]string
	Args []string
	// Values are those of a chart, WorkingDir is that of the program.
	Values, WorkingDir string
	// Kinds are those to describe; none means all.
	Kinds     []string
	Seed      uint64
	Overwrite bool
}

// paths returns pointers to all paths that are set.
func (o *Options) paths() []*string {
	all := []*string{&o.Dir, &o.Manifests, &o.Binary, &o.Samples, &o.Values, &o.WorkingDir}
	for i := range o.CRDs {
		all = append(all, &o.CRDs[i])
	}
	return slices.DeleteFunc(all, func(path *string) bool { return *path == "" })
}

// Complete checks the paths and makes them absolute, before minutes are spent on a control plane.
func (o *Options) Complete() error {
	switch {
	case o.Dir == "" || filepath.Ext(o.Dir) == ".yaml":
		return fmt.Errorf("--subject=%q is not a directory; name a directory for subject.yaml and its scenarios", o.Dir)
	case o.Binary == "":
		return errors.New("--binary is missing; build the operator and set --binary to the program")
	}
	if o.Samples == "" {
		beside := filepath.Join(o.Manifests, "..", "samples")
		if info, err := os.Stat(beside); err == nil && info.IsDir() {
			o.Samples = beside
		}
	}
	for _, path := range o.paths() {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
		if _, err := os.Stat(absolute); err != nil && path != &o.Dir && path != &o.Binary {
			return fmt.Errorf("reading the arguments: %w", err)
		}
	}
	info, err := os.Stat(o.Binary)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("--binary=%s is not an executable program; build the operator first", o.Binary)
	}
	for _, name := range []string{"subject.yaml", "scenarios"} {
		if _, err := os.Stat(filepath.Join(o.Dir, name)); err == nil && !o.Overwrite {
			return fmt.Errorf("%s already exists; choose another directory with --subject, or overwrite it with --overwrite",
				filepath.Join(o.Dir, name))
		}
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return fmt.Errorf("--subject=%s cannot be written: %w", o.Dir, err)
	}
	return nil
}

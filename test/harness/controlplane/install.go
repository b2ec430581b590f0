// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// Tool is a program that only some subjects need. The sums of its modules are those of Go's
// checksum database.
type Tool struct {
	// Name is the name of the program.
	Name string
	// Module and Version are the source, and Package is its folder in the module.
	Module, Version, Package string
	// Takes is the time of its build on two cores.
	Takes string
}

// The tools of subjects. A test of test/module holds the versions equal to those in hack.
var (
	Helm     = Tool{"helm", "helm.sh/helm/v4", "v4.3.1", "cmd/helm", "80 seconds"}
	S3Server = Tool{"versitygw", "github.com/versity/versitygw", "v1.8.0", "cmd/versitygw", "45 seconds"}
)

// Install builds a tool unless it is there, and returns its path. Of the options it uses Out, which
// receives <name>-<version>-<os>-<arch>, Go and Log.
func Install(ctx context.Context, t Tool, o Options) (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("building %s %s: %w", t.Name, t.Version, err)
		}
	}()
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(out, fmt.Sprintf("%s-%s-%s-%s", t.Name, t.Version, runtime.GOOS, runtime.GOARCH))
	path = filepath.Join(dir, t.Name)
	there := func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	return path, once(ctx, out, t.Name, o.Log, there, func(unfinished string) error {
		if err := t.install(ctx, unfinished, o); err != nil {
			return err
		}
		return os.Rename(unfinished, dir)
	})
}

// install builds the program into a folder, independent of the module of the working directory.
func (t Tool) install(ctx context.Context, dir string, o Options) error {
	arguments := slices.Concat([]string{"install"}, buildFlags,
		[]string{"-ldflags=-s -w", t.Module + "/" + t.Package + "@" + t.Version})
	cmd := exec.CommandContext(ctx, o.goCmd(), arguments...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOBIN="+dir)
	fmt.Fprintf(o.Log, "%s: building %s %s (%s on 2 cores, once)\n", t.Name, t.Module, t.Version, t.Takes)
	return compile(ctx, cmd, t.Name, o.Log)
}

// SPDX-License-Identifier: Apache-2.0

// Package controlplane builds the programs of a Kubernetes control plane from pinned Go modules,
// into
//
//	<out>/<kubernetes version>-<os>-<arch>/{etcd,kube-apiserver,...}
//
// and maintains a link to that directory, so that other programs find it without knowing the version.
// Two runs at the same time are safe: one builds, and the other waits. A run with nothing to do only
// compares a stamp. Install does the same for single programs that only some subjects need. The
// package imports only the standard library, because new machines build it first.
package controlplane

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

	"leasehold.dev/test/harness/program"
)

// binary is one thing to build.
type binary struct {
	name string // of the binary
	pkg  string // import path of its main package; a `tool` of go.mod keeps it there
}

var programs = []binary{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
}

// etcdAsBuilt is the name that go gives to the program of etcd's module, whose folder is called server.
const etcdAsBuilt = "server"

// buildFlags build without paths, and without what only debuggers read, which takes a tenth of each build.
// What is built with the same flags shares Go's build cache.
var buildFlags = []string{"-trimpath", "-gcflags=all=-dwarf=false"}

// heartbeat is the period of the progress lines of a long build.
const heartbeat = 15 * time.Second

// Options select what to build, and where.
type Options struct {
	// Out receives <version>-<os>-<arch> and the link.
	Out string
	// Pins are the versions to build; empty for the embedded ones.
	Pins Pins
	// Link is the name of the link; empty, it is current.
	Link string
	// Go is the go command to build with; empty, it is the one on the path.
	Go string
	// Log receives what is built, and a line every 15 s while it is.
	Log io.Writer
}

// Build builds all programs that are missing or outdated, and returns their folder.
func Build(ctx context.Context, o Options) (dir string, err error) {
	if o.Out == "" {
		return "", errors.New("building the control plane: no folder is given")
	}
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", o.Out, err)
	}
	o.Out = out
	plan, err := newPlan(o)
	if err != nil {
		return "", err
	}
	if plan.finished() {
		fmt.Fprintf(o.Log, "controlplane: %s is up to date\n", plan.dir)
		return plan.dir, nil
	}
	return plan.dir, once(ctx, out, "controlplane", o.Log, plan.finished, func(unfinished string) error {
		return plan.build(ctx, unfinished)
	})
}

// once calls build with an empty folder below out, unless the result is there. build renames the folder when all is
// in it, so readers never find an incomplete result.
func once(ctx context.Context, out, name string, log io.Writer, there func() bool, build func(string) error) error {
	if there() {
		return nil
	}
	unlock, err := lock(ctx, out, name, log)
	if err != nil {
		return err
	}
	defer unlock()
	if there() { // by the run that held the lock
		return nil
	}
	// A run that was killed may have left it. No other run uses it while this one has the lock.
	unfinished := filepath.Join(out, ".unfinished-"+name)
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o755)); err != nil {
		return fmt.Errorf("creating the output folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(unfinished) }() // renamed by then, except after a failure
	return build(unfinished)
}

// build compiles every program into a folder, and renames it when it has all programs.
func (p *plan) build(ctx context.Context, unfinished string) error {
	fmt.Fprintf(p.Log, "controlplane: building Kubernetes %s into %s (5 to 25 minutes on 2 cores the first time)\n",
		p.version, p.dir)
	module, err := p.Pins.extract()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(module) }() // it has copies only
	if err := p.compile(ctx, module, unfinished); err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	if err := os.WriteFile(filepath.Join(unfinished, stampFile), []byte(p.stamp), 0o644); err != nil {
		return fmt.Errorf("writing the stamp: %w", err)
	}
	if err := p.publish(unfinished); err != nil {
		return fmt.Errorf("publishing the folder: %w", err)
	}
	return nil
}

// compile builds the programs of the pins into a folder. One command builds all of them: while it links one, it
// compiles another.
func (p *plan) compile(ctx context.Context, module, dir string) error {
	arguments := slices.Concat([]string{"build", "-mod=readonly"}, buildFlags,
		[]string{"-ldflags", ldFlags(p.version), "-o", dir})
	for _, prog := range programs {
		arguments = append(arguments, prog.pkg)
	}
	cmd := exec.CommandContext(ctx, p.goCmd(), arguments...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if err := compile(ctx, cmd, "controlplane", p.Log); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, etcdAsBuilt), filepath.Join(dir, "etcd"))
}

// compile runs a go command that builds what has the name. What it prints is in the error.
func compile(ctx context.Context, cmd *exec.Cmd, name string, log io.Writer) error {
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed

	began := time.Now()
	stop := program.Progress(log, heartbeat, name+": still compiling")
	err := cmd.Run()
	stop()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, printed.String())
	}
	fmt.Fprintf(log, "%s: built in %.1f s\n", name, time.Since(began).Seconds())
	return nil
}

// Command controlplane builds the programs of a Kubernetes control plane from
// the Go modules this folder's go.mod pins, into
//
//	<out>/<kubernetes version>-<os>-<arch>/{etcd,kube-apiserver,...}
//
// and keeps <out>/current pointing at that folder, so that others find it
// without knowing the version. With -minor it builds what the folder of that name
// pins, and the link is <out>/<minor>. Two runs at the same time are safe: one builds,
// the other waits for it. A run with nothing to do only compares a stamp.
//
// Run it in this folder: go run . -out ../../bin/controlplane
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"leasehold.dev/hack/pinned"
)

// program is one thing to build.
type program struct {
	name string // of the binary
	pkg  string // import path of its main package; a `tool` of go.mod keeps it there
}

// programs in build order: etcd first because it is quick and shows that the
// toolchain works, kubectl before kube-controller-manager because it shares
// most with what kube-apiserver compiled already.
var programs = []program{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
}

// heartbeat is the period of the progress lines of a long build.
const heartbeat = 15 * time.Second

func main() {
	out := flag.String("out", "", "folder that receives <version>-<os>-<arch> and the link current (required)")
	minor := flag.String("minor", "",
		"minor version of Kubernetes that has a folder here, as in 1.31; empty is the default version")
	goCmd := flag.String("go", "go", "go command to build with")
	flag.Parse()
	// The process ends with the command, so the handler of signals is never stopped.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, *out, *goCmd, *minor, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		os.Exit(1)
	}
}

// run builds all programs under out that are missing or outdated, and logs its steps.
func run(ctx context.Context, out, goCmd, minor string, log io.Writer) error {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && minor == "" {
		fmt.Fprintf(log, "controlplane: KUBEBUILDER_ASSETS is set, so the control plane in %s is used and nothing is built\n",
			assets)
		return nil
	}
	if out == "" {
		return errors.New("-out is required")
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", out, err)
	}
	plan, err := newPlan(out, goCmd, minor)
	if err != nil {
		return err
	}
	if plan.finished() {
		fmt.Fprintf(log, "controlplane: %s is up to date\n", plan.dir)
		return nil
	}
	unlock, err := pinned.Lock(ctx, out, "controlplane", log)
	if err != nil {
		return err
	}
	defer unlock()
	// The run that held the lock may have built everything.
	if plan.finished() {
		fmt.Fprintf(log, "controlplane: %s was built by the other run\n", plan.dir)
		return nil
	}
	return plan.build(ctx, log)
}

// build compiles every program in a folder of its own, which gets its name when all
// programs are in it: whoever looks for versions never finds a part of one.
func (p *plan) build(ctx context.Context, log io.Writer) error {
	fmt.Fprintf(log, "controlplane: building Kubernetes %s into %s (about 5 minutes on 2 cores the first time)\n",
		p.version, p.dir)
	// A run that was killed may have left it. No other run uses it while this one has the lock.
	unfinished := filepath.Join(p.out, ".unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("removing what another run left: %w", err)
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return fmt.Errorf("creating the output folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(unfinished) }() // renamed by then, except after a failure
	began := time.Now()
	for i, prog := range programs {
		step := fmt.Sprintf("[%d/%d] %s", i+1, len(programs), prog.name)
		if err := p.buildOne(ctx, prog, filepath.Join(unfinished, prog.name), step, log); err != nil {
			return fmt.Errorf("building %s: %w", prog.name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(unfinished, stampFile), []byte(p.stamp), 0o644); err != nil {
		return fmt.Errorf("writing the stamp: %w", err)
	}
	if err := p.publish(unfinished); err != nil {
		return fmt.Errorf("publishing the folder: %w", err)
	}
	if err := p.relink(); err != nil {
		return fmt.Errorf("linking the folder: %w", err)
	}
	fmt.Fprintf(log, "controlplane: done in %.0f s\n", time.Since(began).Seconds())
	return nil
}

func (p *plan) buildOne(ctx context.Context, prog program, binary, step string, log io.Writer) error {
	fmt.Fprintln(log, step)
	cmd := exec.CommandContext(ctx, p.goCmd, "build", "-trimpath", "-ldflags", pinned.LDFlags(p.version), "-o",
		binary, prog.pkg)
	cmd.Dir = p.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said

	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			if err != nil {
				return fmt.Errorf("%w\n%s", err, said.String())
			}
			fmt.Fprintf(log, "%s: built in %.1f s\n", step, time.Since(began).Seconds())
			return nil
		case <-tick.C:
			fmt.Fprintf(log, "%s: still compiling, %.0f s so far\n", step, time.Since(began).Seconds())
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Command controlplane builds the control plane that this repository's tests run on. It is the
// builder of prove, with other pins.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"leasehold.dev/test/harness/controlplane"
)

func main() {
	out := flag.String("out", "", "folder that receives <version>-<os>-<arch> and the link current (required)")
	pins := flag.String("pins", "", "folder of the go.mod that pins the default version; empty takes the pins of prove")
	minor := flag.String("minor", "",
		"minor version of Kubernetes that has a folder in -pins, as in 1.31; empty is the default")
	goCmd := flag.String("go", "go", "go command to build with")
	flag.Parse()
	// The process ends with the command, so the handler of signals is never stopped.
	//nolint:forbidigo // a program starts the first context
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := build(ctx, *out, *pins, *minor, *goCmd); err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, out, pins, minor, goCmd string) error {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && minor == "" {
		fmt.Fprintf(os.Stderr,
			"controlplane: KUBEBUILDER_ASSETS is set, so the control plane in %s is used and nothing is built\n", assets)
		return nil
	}
	o := controlplane.Options{Out: out, Link: minor, Go: goCmd, Log: os.Stderr}
	if pins != "" || minor != "" {
		var err error
		if o.Pins, err = controlplane.ReadPins(filepath.Join(pins, minor)); err != nil {
			return err
		}
	}
	_, err := controlplane.Build(ctx, o)
	return err
}

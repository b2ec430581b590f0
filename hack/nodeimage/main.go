// Command nodeimage builds a node image for kind from Go modules and Debian
// packages alone, for places where kindest/node cannot be pulled:
//
//  1. the programs of Kubernetes (kubernetes/go.mod) and of a node (node/go.mod)
//  2. a root file system by debootstrap
//  3. the images that kubeadm wants, each a static binary
//  4. all of it in one container, which is committed as the node image
//
// The image says in a label what it was built from; a run that finds it so has
// nothing to do. The name of the image is all that goes to standard output. Only
// debootstrap needs to be root; sudo makes it so. DEBIAN_MIRROR is the mirror it
// uses in place of its default.
//
// Run it in this folder: go run . -out ../../bin/nodeimage
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"leasehold.dev/test/harness/controlplane"
)

func main() {
	var opts options
	flag.StringVar(&opts.out, "out", "", "folder that receives the programs (required)")
	flag.StringVar(&opts.goCmd, "go", "go", "go command to build with")
	flag.StringVar(&opts.docker, "docker", "docker", "docker command to build with")
	flag.StringVar(&opts.image, "image", "", "name of the image; default leasehold-node:<kubernetes version>")
	flag.Parse()
	// The process ends with the command, so the handler of signals is never stopped.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	image, err := run(ctx, opts, os.Stderr)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintf(os.Stderr, "node-image: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(image)
}

// options is what the command line says.
type options struct {
	out, goCmd, docker, image string
}

// run makes sure that the image is there and returns its name.
func run(ctx context.Context, opts options, log io.Writer) (string, error) {
	if opts.out == "" {
		return "", errors.New("-out is required")
	}
	out, err := filepath.Abs(opts.out)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", opts.out, err)
	}
	opts.out = out
	p, err := newPlan(ctx, opts)
	if err != nil {
		return "", err
	}
	unlock, err := controlplane.Lock(ctx, out, "node-image", log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if p.finished(ctx) {
		fmt.Fprintf(log, "node-image: %s is up to date\n", p.image)
		return p.image, nil
	}
	return p.image, p.build(ctx, log)
}

// build does the four steps.
func (p *plan) build(ctx context.Context, log io.Writer) error {
	fmt.Fprintf(log, "node-image: building %s (about 10 minutes on 2 cores the first time)\n", p.image)
	began := time.Now()
	// Said before the long work, not after it.
	if err := p.rootPossible(ctx); err != nil {
		return err
	}
	if err := p.compile(ctx, log); err != nil {
		return err
	}
	if err := p.makeRoot(ctx, log); err != nil {
		return err
	}
	archive, err := p.packComponents(ctx, log)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(archive) }() // the image has it now; after a failure it is made anew
	if err := p.assemble(ctx, archive, log); err != nil {
		return err
	}
	fmt.Fprintf(log, "node-image: %s done in %.0f s\n", p.image, time.Since(began).Seconds())
	return nil
}

// Command release builds all files of a release into one folder:
//
//	manager-linux-amd64, ...            static binaries
//	manager-linux-amd64.spdx.json, ...  what each was made of
//	manager-image.tar, viewer-image.tar OCI archives for all platforms
//	install.yaml                        the manifests, with images by digest
//	leasehold-0.1.0.tgz                 the chart, if config/chart has one
//	SHA256SUMS
//
// It builds a clone of the commit, so files that git does not know have no influence,
// and the Go command stamps the version of the tag that the clone gets. The same commit,
// version, registry and Go release give the same bytes in any folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// errInput is about the arguments or the checkout, and not about the build.
var errInput = errors.New("nothing was built")

// options are the flags.
type options struct {
	version, registry           string
	source, out                 string
	goCmd, kustomize, helm, git string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

// command returns the exit code: 2 for bad input, as the flag package has it.
func command(ctx context.Context, args []string, log io.Writer) int {
	var o options
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.version, "version", "", "The version, as in v0.1.0 (required).")
	flags.StringVar(&o.registry, "registry", "",
		"What comes before the names of the images, as in ghcr.io/example (required).")
	flags.StringVar(&o.source, "source", ".", "The checkout to release.")
	flags.StringVar(&o.out, "out", "dist", "The folder to write, which must not exist.")
	flags.StringVar(&o.goCmd, "go", "go", "The go command.")
	flags.StringVar(&o.git, "git", "git", "The git command.")
	flags.StringVar(&o.kustomize, "kustomize", "kustomize", "The kustomize command.")
	flags.StringVar(&o.helm, "helm", "helm", "The helm command; only used if there is a chart.")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := run(ctx, o, log); err != nil {
		fmt.Fprintf(log, "release: %v\n", err)
		if errors.Is(err, errInput) {
			return 2
		}
		return 1
	}
	return 0
}

// run makes the release. The folder appears by a rename, when all of it is there.
func run(ctx context.Context, o options, log io.Writer) (err error) {
	commit, err := o.check(ctx)
	if err != nil {
		return err
	}
	r, err := newRelease(ctx, o, commit, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cleanUp()) }()
	if err := r.make(ctx); err != nil {
		return err
	}
	if err := os.Rename(r.dist, r.out); err != nil {
		return fmt.Errorf("moving the finished folder: %w", err)
	}
	fmt.Fprintf(log, "release: %s of commit %s is in %s\n", o.version, commit, r.out)
	return nil
}

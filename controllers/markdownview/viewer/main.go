// SPDX-License-Identifier: Apache-2.0

// Command viewer serves a directory of Markdown files as web pages. In a cluster, the directory is the
// mounted ConfigMap of a MarkdownView. The viewer only reads that directory. It needs no permissions, no
// writable file system and no particular user.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/net/netutil"

	"leasehold.dev/runners/version"
)

// drainTimeout bounds the time for open requests after SIGTERM; Kubernetes allows 30 s.
const drainTimeout = 10 * time.Second

// memoryShare of the container's memory limit is used before garbage is collected more eagerly.
const memoryShare = 0.8

// options are the values of the flags.
type options struct {
	dir, address, title, language string
	showVersion                   bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintf(os.Stderr, "viewer: %v\n", err)
		os.Exit(2)
	case o.showVersion:
		fmt.Fprintln(os.Stdout, version.Get().Line("viewer"))
		os.Exit(0)
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	if limit, err := memlimit.Set(memlimit.WithRatio(memoryShare)); err != nil || limit == math.MaxInt64 {
		log.Info("No memory limit found for the container", "error", err)
	}
	//nolint:forbidigo // a program begins its context
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o, log)
	stop()
	if err != nil {
		log.Error("Exiting", "error", err)
		os.Exit(1)
	}
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("viewer", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.dir, "dir", "/book/src", "The directory that contains SUMMARY.md and the other Markdown files.")
	flags.StringVar(&o.address, "bind-address", ":3000", "The address to serve the pages on.")
	flags.StringVar(&o.title, "title", "", "The title of the book. Defaults to the first heading of SUMMARY.md.")
	flags.StringVar(&o.language, "language", "en",
		"The language of the text, as a BCP 47 tag such as de or fa. It also sets the direction of the text.")
	flags.BoolVar(&o.showVersion, "version", false,
		"Print the version, the commit, the Go version and the platform, then exit.")
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("reading the flags: unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

// run serves until ctx is done, and then finishes the open requests. It also runs while the folder
// cannot be read: /healthz reports the reason, and the folder may become readable.
func run(ctx context.Context, o options, log *slog.Logger) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := newServer(&site{books: &bookCache{dir: o.dir}, renderer: newPageRenderer(o.title, o.language), log: log})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	log.Info("Serving", "address", listener.Addr().String(), "folder", o.dir)

	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	log.Info("Stopping")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("stopping: %w", errors.Join(err, server.Close()))
	}
	return nil
}

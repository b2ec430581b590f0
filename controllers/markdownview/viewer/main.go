// Command viewer shows a folder of Markdown files as web pages: the contents of a
// MarkdownView, as its ConfigMap is mounted into the Pod. It needs nothing but
// to read that folder: no rights, no writable file system, no user of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"leasehold.dev/runners/version"
)

// drainTimeout is what open requests are given at the end; Kubernetes gives 30 s.
const drainTimeout = 10 * time.Second

// options are the flags.
type options struct {
	dir, address, title, language string

	showVersion bool
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // a program begins its context
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
	flags.StringVar(&o.dir, "dir", "/book/src", "The folder with SUMMARY.md and the other Markdown files.")
	flags.StringVar(&o.address, "bind-address", ":3000", "The address to serve on.")
	flags.StringVar(&o.title, "title", "", "The title of the book. By default the first heading of SUMMARY.md.")
	flags.StringVar(&o.language, "language", "en", "The language of the text, for browsers and screen readers.")
	flags.BoolVar(&o.showVersion, "version", false, "Print the version, the commit, the Go version and the platform, and exit.")
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("reading the flags: %q is not a flag", flags.Arg(0))
	}
	return o, nil
}

// run serves until ctx ends, and then until open requests are answered. That the
// folder cannot be read is no reason to end: /healthz tells, and it may come.
func run(ctx context.Context, o options, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	s := &site{
		shelf:   &shelf{dir: o.dir},
		printer: &printer{title: o.title, language: o.language},
		log:     log,
	}
	server := newServer(s)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
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
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

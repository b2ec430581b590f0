// Command run shows Leasehold at work on this machine: a control plane, an S3
// server, the operator as two processes under the rights it ships with, and the
// samples. It prints what happens until Ctrl-C.
//
// `make run` builds what it needs and starts it. With -once it ends as soon as
// the samples are Ready. With -cluster=current it runs the operator alone, against
// a cluster that exists.
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

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// settings are the flags.
type settings struct {
	manager string        // the operator's binary
	viewer  string        // the page server's binary
	config  string        // folder of the kustomize configuration
	workDir string        // where the control plane's folder goes
	lease   time.Duration // of the election; zero keeps that of config/manager
	timeout time.Duration // of becoming ready
	once    bool
	cluster string // empty starts a control plane
}

func main() {
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	// The libraries log watches that end with the control plane.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())

	ctx, stop := untilSignal(context.Background())
	// The first signal restores the default handler, so a second one kills this process.
	// The watchdog of the control plane then removes what is left.
	context.AfterFunc(ctx, stop)
	out := newProgress(os.Stdout)
	start := run
	if s.cluster == clusterCurrent {
		start = runCurrent
	}
	if err := start(ctx, s, out); err != nil {
		out.printf("failed", "%v", err)
		os.Exit(1)
	}
}

// untilSignal returns a context that ends with a signal. A terminal that closes sends SIGHUP, which would
// end this process alone: the operator runs in a group of its own, and would go on for ever. nohup ignores
// SIGHUP on purpose.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}

func parse(args []string, help io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.StringVar(&s.manager, "manager", filepath.Join("bin", "manager"), "the operator's binary")
	flags.StringVar(&s.viewer, "viewer", filepath.Join("bin", "viewer"), "the page server's binary")
	flags.StringVar(&s.config, "config", "config",
		"folder of the kustomize configuration; its default and samples are applied")
	flags.StringVar(&s.workDir, "workdir", filepath.Join("bin", "run"), "folder for data and logs, removed at the end")
	flags.DurationVar(&s.lease, "lease", 0,
		"lease duration of the leader election, at least 3s; 0 keeps that of config/manager")
	flags.DurationVar(&s.timeout, "timeout", 2*time.Minute, "how long replicas and samples may take to become ready, each")
	flags.BoolVar(&s.once, "once", false, "stop, with exit code 0, as soon as the samples are Ready")
	flags.StringVar(&s.cluster, "cluster", "",
		"\"current\" runs the operator alone, against the cluster of the current kubeconfig; empty starts a control plane")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	err := errors.Join(checkLease(s.lease), checkCluster(s), checkRest(flags.Args()))
	if err != nil {
		fmt.Fprintln(help, err)
	}
	return s, err
}

// checkLease refuses durations that leave no time between two attempts to renew.
func checkLease(lease time.Duration) error {
	if lease != 0 && (lease < 3*time.Second || lease%time.Second != 0) {
		return fmt.Errorf("-lease %v: want whole seconds, at least 3", lease)
	}
	return nil
}

func checkCluster(s *settings) error {
	if s.cluster != "" && s.cluster != clusterCurrent {
		return fmt.Errorf("-cluster %s: want %q or nothing", s.cluster, clusterCurrent)
	}
	if s.cluster != "" && (s.once || s.lease != 0) {
		return errors.New("-once and -lease are for a control plane that this program starts")
	}
	return nil
}

func checkRest(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	return nil
}

// run starts everything, waits for the end and stops everything. It returns no error after
// a signal.
func run(ctx context.Context, s *settings, out *progress) (err error) {
	e := &environment{settings: s, out: out}
	working, end := context.WithCancel(ctx)
	defer func() {
		if ctx.Err() != nil {
			err = nil // the signal caused it
			out.printf("stopping", "a signal came; another one ends this process at once")
		}
		end() // first, so that no end of a process is reported from here on
		err = errors.Join(err, e.stop(context.WithoutCancel(ctx)))
	}()
	for _, step := range []func(context.Context) error{
		e.startControlPlane, // everything below talks to it
		e.startStorage,      // before the samples need it
		e.install,           // before the first replica needs its rights
		e.follow,            // before the first change
		e.startNode,         // it runs the viewers
		e.startReplicas,     // both, under the shipped ServiceAccount
		e.awaitReplicas,     // webhooks answer from here on
		e.keepReplicas,      // not earlier: one that cannot start is an error
		e.applySamples,
		e.awaitSamples,
	} {
		if err := step(working); err != nil {
			return err
		}
	}
	if s.once {
		return nil
	}
	if err := e.printCommands(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

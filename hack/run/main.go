// Command run shows Leasehold at work on this machine: a control plane, an S3
// server, the operator as two processes under the rights it ships with, and the
// samples. It prints what happens until Ctrl-C.
//
// `make run` builds what it needs and starts it. With -once it ends as soon as
// the samples are Ready.
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
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/test/harness/program"
)

// timeout bounds the wait for each replica and for each sample.
const timeout = 2 * time.Minute

func main() { os.Exit(program.Run("run", nil, run)) }

// run starts everything, waits for the end and stops everything. It returns no error after a signal.
func run(ctx context.Context, args []string, output io.Writer) (err error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	workDir := flags.String("workdir", filepath.Join("bin", "run"), "Folder for data and logs, removed at the end.")
	once := flags.Bool("once", false, "Stop, with exit code 0, as soon as the samples are Ready.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	}
	// A second signal ends this process at once. The watchdog of the control plane then removes what is left.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	// The libraries log watches that end with the control plane.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	e := &environment{workDir: *workDir, out: newProgress(output)}
	working, end := context.WithCancel(ctx)
	defer func() {
		if ctx.Err() != nil {
			err = nil // the signal caused it
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
	} {
		if err := step(working); err != nil {
			return err
		}
	}
	if *once {
		return nil
	}
	if err := e.printCommands(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// printCommands prints commands that a user may try.
func (e *environment) printCommands() error {
	path, err := e.plane.KubectlPath()
	if err != nil {
		return err
	}
	kubectl := fmt.Sprintf("%s --kubeconfig %s", path, e.plane.Kubeconfig())
	var text strings.Builder
	fmt.Fprintf(&text, "  kubeconfig  %s\n", e.plane.Kubeconfig())
	fmt.Fprintf(&text, "\n  Things to try in another terminal:\n")
	for _, try := range [][2]string{
		{"list everything", "get tenants,storagebuckets,markdownviews,namespaces,deployments -o wide"},
		{"check that an admin of the sample may work in its namespaces",
			"auth can-i create deployments.apps -n sample-dev --as jane@example.com"},
		{"change a page: its viewers roll, and the address above changes",
			`patch markdownview handbook --type=merge -p '{"spec":{"markdowns":{"on-call.md":"# On call\n\nNobody."}}}'`},
		{"delete a managed bucket and a Tenant, and watch this output", "delete storagebucket/sample-managed tenant/sample"},
	} {
		fmt.Fprintf(&text, "\n  # %s\n  %s %s\n", try[0], kubectl, try[1])
	}
	fmt.Fprintf(&text, "\n  Kill the S3 server (kill -9 %d): its buckets become unreachable with the third failure, and\n"+
		"  Ready again after it has restarted, %v later.\n", e.server.Pid(), serverPause)
	fmt.Fprintf(&text, "  Kill a replica (kill -9 <process>): the other one takes over, and it starts again as in a Pod.\n")
	fmt.Fprintf(&text, "  Ctrl-C stops everything and leaves nothing behind.")
	e.out.block(text.String())
	return nil
}

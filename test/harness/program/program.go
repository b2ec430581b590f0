// SPDX-License-Identifier: Apache-2.0

// Package program defines how the test programs handle signals and which exit codes they use. The exit
// code is 0 if there are no findings, 1 if there are findings, and 2 if the program could not do its work.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

// errUndone identifies errors of the program, not of its subject.
var errUndone = errors.New("not all of the work could be done")

// Run does the work of a program until its end or a signal, prints the error, and returns
// the exit code. found is the error of complete work with findings.
func Run(name string, found error, work func(ctx context.Context, args []string, output io.Writer) error) int {
	//nolint:forbidigo // a program begins with no context
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := work(ctx, os.Args[1:], os.Stdout)
	code := ExitCode(err, found)
	if code != 0 {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return code
}

// ExitCode returns the exit code for the error of the work. Incomplete work is 2, also if it
// has findings.
func ExitCode(err, found error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, found) && !errors.Is(err, errUndone):
		return 1
	}
	return 2
}

// Undone wraps an error that kept the program from completing its work. Nil stays nil.
func Undone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUndone, err)
}

// Seed returns the seed, or a new one for 0.
func Seed(seed uint64) uint64 {
	if seed == 0 {
		seed = rand.Uint64() //nolint:forbidigo // the source of seeds
	}
	return seed
}

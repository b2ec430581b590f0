// Package program is the frame of the programs that prove something: how they are
// asked, how they are broken off, and what they end with. It is 0 if all has held, 1
// if something was found, and 2 if the program could not do its work.
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

// errUndone says that the program, and not what it looks at, is at fault.
var errUndone = errors.New("not all of the work could be done")

// Run does the work of a program until it is over or somebody breaks it off, says
// what went wrong, and returns what the program ends with. found is the error of work
// that was done, and that has found something.
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

// ExitCode is what Run returns for the error of its work. Who could not do all of
// the work says so, whatever was found until then.
func ExitCode(err, found error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, found) && !errors.Is(err, errUndone):
		return 1
	}
	return 2
}

// Undone says of an error that it kept the program from doing all of its work. Nil
// stays nil.
func Undone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUndone, err)
}

// Parse reads the arguments, of which all are flags, and returns the seed of all
// random choices: what -seed says, which it adds to the flags, or a new one. The error
// is flag.ErrHelp if only help is wanted.
func Parse(flags *flag.FlagSet, args []string) (seed uint64, err error) {
	flags.Uint64Var(&seed, "seed", 0, "Seed of all random choices; 0 takes a new one.")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if flags.NArg() > 0 {
		return 0, fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	}
	if seed == 0 {
		seed = rand.Uint64() //nolint:forbidigo // where a seed comes from
	}
	return seed, nil
}

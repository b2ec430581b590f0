// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leasehold.dev/test/harness/program"
)

// The forms of the output.
const (
	outputText = "text"
	outputJSON = "json"
)

// options are the command line.
type options struct {
	subject, manager, dir string
	scenarios             []string
	plan                  string
	seed                  uint64
	smoke, keep           bool
	clean                 int
	workers, repeat       int
	pattern, output       string
	make                  bool
	shard                 shard
	match                 *regexp.Regexp // of pattern
	base                  string
	budget                time.Duration
}

// newRun returns the command that runs plans.
func newRun(work func(ctx context.Context, o options, output io.Writer) error) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "prove",
		Short: "Run the fault plans of an operator and report the findings",
		Example: `  prove                              # clean runs, then all plans of all scenarios
  prove --smoke                      # one plan of each family of faults
  prove --seed 7 --plan ID           # one plan again
  prove --seed 7 --shard 2/8         # the second of eight parts of the plans, each on a machine of its own`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := complete(&o); err != nil {
				return fmt.Errorf("reading the arguments: %w", err)
			}
			return work(c.Context(), o, c.OutOrStdout())
		},
	}
	register(&o, c.Flags())
	return c
}

func register(o *options, flags *pflag.FlagSet) {
	flags.StringVar(&o.subject, "subject", "prove/subject.yaml", "path of the subject.yaml that describes the "+
		"operator")
	flags.StringVar(&o.manager, "manager", "",
		"program of the operator; replaces the program of the subject, which is then not built")
	flags.StringVar(&o.dir, "dir", "artifacts/prove", "directory for the summary and for the runs with findings")
	flags.StringSliceVar(&o.scenarios, "scenario", nil,
		"names of the scenarios to run, separated by commas; if empty, all scenarios run")
	flags.StringVar(&o.plan, "plan", "", "ID of the only plan to run; if empty, all plans run")
	flags.BoolVar(&o.smoke, "smoke", false,
		"run only one plan of each family of faults, from the scenarios that try all faults")
	flags.StringVar(&o.pattern, "match", "", "run only the plans whose ID matches this regular expression, for "+
		"example :lost-response:")
	flags.BoolVar(&o.keep, "keep", false, "also keep the histories of runs without findings")
	flags.IntVar(&o.clean, "clean", 0, "number of additional clean runs to run instead of plans, to look for false "+
		"positives")
	flags.IntVar(&o.workers, "workers", 3, "number of plans to run in parallel, each on its own control plane")
	flags.IntVar(&o.repeat, "repeat", 1, "how many times to run each plan, to check that the result is always the "+
		"same")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of all random choices; 0 chooses a new seed")
	flags.StringVar(&o.output, "output", outputText,
		"output format: text, or json, which prints the summary on standard output and the text on standard error")
	flags.Var(&o.shard, "shard", "run part i of n of the plans, given as i/n, such as 2/8; each plan is in exactly "+
		"one part; 0/n means n/n")
	flags.StringVar(&o.base, "base", "", "directory with the report of an earlier run of another version: compare the "+
		"requests of clean runs, run only plans of requests whose number changed, and of what the operator receives in "+
		"their scenarios, and exit with 1 only for new findings and runs that prove nothing")
	flags.DurationVar(&o.budget, "budget", 0, "start no plan after this time, such as 10m, counted from the end of the "+
		"clean runs; one plan of each family of faults comes first, then another of each; 0 means no limit")
	flags.BoolVar(&o.make, "make", false, "print the commands that repeat a run as `make prove` commands")
}

// complete checks the options and sets those that follow from others.
func complete(o *options) (err error) {
	if o.shard.count > 0 && o.seed == 0 {
		return errors.New("--shard needs --seed: shards of two seeds have other plans")
	}
	o.seed = program.Seed(o.seed)
	if o.match, err = regexp.Compile(o.pattern); err != nil {
		return fmt.Errorf("reading --match: %w", err)
	}
	switch {
	case o.output != outputText && o.output != outputJSON:
		return fmt.Errorf("--output=%s is neither text nor json", o.output)
	case o.workers < 1 || o.repeat < 1:
		return fmt.Errorf("--workers=%d and --repeat=%d have to be at least 1", o.workers, o.repeat)
	case o.budget < 0:
		return fmt.Errorf("--budget=%s is negative", o.budget)
	case o.base != "" && (o.shard.count > 0 || o.clean > 0 || o.plan != "" || sameFile(o.base, o.dir)):
		return errors.New("--base excludes --shard, --clean and --plan, and is not the directory of --dir")
	case o.shard.count > 0 && (o.smoke || o.clean > 0 || o.plan != ""):
		return errors.New("--shard excludes --smoke, --clean and --plan")
	}
	if o.plan != "" && o.repeat == 1 {
		o.workers = 1
	}
	return nil
}

// byValue reports whether the most valuable plans come first, because not all of them may be run.
func (o *options) byValue() bool { return o.base != "" || o.budget > 0 }

// replay returns the command that runs a scenario again, with its plan if it is not "".
func (o *options) replay(of, plan string) string {
	if plan != "" {
		return o.command("PLAN", "plan", plan)
	}
	flags := fmt.Sprintf("--scenario=%s --clean=%d", of, max(1, o.clean))
	if o.make {
		return o.command("PROVE_FLAGS", "", flags)
	}
	return o.command("", "", "") + " " + flags
}

// commandName returns how the user starts this program: by its name if that is on the PATH.
func commandName() string {
	own, err := os.Executable()
	found, missing := exec.LookPath("prove")
	if err == nil && missing == nil && sameFile(own, found) {
		return "prove"
	}
	return "go tool prove"
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, missing := os.Stat(b)
	return err == nil && missing == nil && os.SameFile(one, other)
}

// command returns prove with the subject, the seed and one more setting, as a variable of make or
// as a flag.
func (o *options) command(variable, flag, value string) string {
	command, subject, seed, setting := commandName(), " --subject='%s'", " --seed=%d", " --"+flag+"='%s'"
	usual := "prove/subject.yaml"
	if o.make {
		command, subject, seed, setting = "make prove", " SUBJECT='%s'", " SEED=%d", " "+variable+"='%s'"
		usual = "test/prove/subject.yaml"
	}
	if o.subject != usual {
		command += fmt.Sprintf(subject, o.subject)
	}
	command += fmt.Sprintf(seed, o.seed)
	if value != "" {
		command += fmt.Sprintf(setting, value)
	}
	return command
}

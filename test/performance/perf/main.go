// Command perf measures the operator of this checkout and writes a report. `make perf` runs it.
//
//	perf                       everything, about 40 minutes
//	perf -only scale,pauses    some of it
//	perf -quick                as little as shows that the measurements work
//	perf -report               ends with 0 though a figure misses its goal
//
// It ends with 1 if a goal is missed, and with 2 if something could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/performance/environment"
	"leasehold.dev/test/performance/failover"
	"leasehold.dev/test/performance/scale"
)

// errMissed says that what was measured, and not this program, is at fault.
var errMissed = errors.New("not every goal was kept")

func main() { os.Exit(program.Run("perf", errMissed, perf)) }

// measurements are all there are, in the order in which they are made.
var measurements = []measurement{
	{"scale", "12m", scale.Measure},
	{"failover", "15m", failover.Measure},
	{"pauses", "10m", failover.MeasurePauses},
}

// options are the command line.
type options struct {
	root, dir string
	chosen    []measurement
	seed      uint64
	quick     bool
	report    bool
}

func parse(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.root, "root", ".", "Folder of the repository.")
	flags.StringVar(&o.dir, "dir", "artifacts/perf", "Folder for the report and for what is worth keeping.")
	flags.BoolVar(&o.quick, "quick", false,
		"Measure as little as shows that the measurements work; the figures say nothing.")
	flags.BoolVar(&o.report, "report", false,
		"End with 0 though a figure misses its goal. It ends with 1 otherwise, unless it was quick.")
	only := flags.String("only", "", "Measure only these, with commas between: "+ids(measurements)+".")
	if o.seed, err = program.Parse(flags, args); err != nil {
		return o, err
	}
	o.chosen, err = choose(measurements, *only)
	return o, err
}

// choose returns the measurements that are named, in the order in which they are made.
func choose(all []measurement, only string) ([]measurement, error) {
	if only == "" {
		return all, nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m measurement) bool { return m.id == name }) {
			return nil, fmt.Errorf("reading -only: there is no %q; there are %s", name, ids(all))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m measurement) bool { return !slices.Contains(names, m.id) }), nil
}

func ids(of []measurement) string {
	var names []string
	for _, m := range of {
		names = append(names, m.id)
	}
	return strings.Join(names, ", ")
}

func perf(ctx context.Context, args []string, output io.Writer) error {
	o, err := parse(args, output)
	if err != nil {
		return err
	}
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		return errors.New("USE_EXISTING_CLUSTER is true: unset it, as nothing can be measured without the API server's audit log")
	}
	fmt.Fprintf(output, "seed %d\n", o.seed)
	// controller-runtime warns if no logger is set 30 seconds after it is first used.
	log.SetLogger(logr.Discard())
	for _, path := range []*string{&o.root, &o.dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("finding a folder: %w", err)
		}
	}
	c := &campaign{clock: clock.RealClock{}, output: output, dir: o.dir, onlyReport: o.report}
	c.report = figures.Report{Seed: o.seed, Quick: o.quick, Started: c.clock.Now(), Machine: figures.ThisMachine()}
	c.say("building %s", o.root)
	checkout, err := environment.Build(ctx, o.root, filepath.Join(o.dir, "bin"))
	if err != nil {
		return err
	}
	c.report.Commit = checkout.Commit
	return c.run(ctx, o.chosen, checkout)
}

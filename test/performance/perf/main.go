// SPDX-License-Identifier: Apache-2.0

// Command perf measures the operator of this checkout and writes a report. `make perf` runs it.
//
//	perf                       everything, about 40 minutes
//	perf -only scale,pauses    only these measurements
//	perf -quick                a minimum, to test that the measurements work
//	perf -report               exits with 0 although a figure misses its goal
//	perf -starts ../base       only how long the operator of this checkout and of another one take to start
//
// The exit code is 1 if a goal is missed, and 2 if a measurement failed.
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
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/program"
)

// errMissed reports a missed goal, not a failure of this program.
var errMissed = errors.New("not every goal was met")

func main() { os.Exit(program.Run("perf", errMissed, perf)) }

// bench is the input of a measurement.
type bench struct {
	checkout checkout
	seed     uint64
	// quick measures the minimum that tests the measurement.
	quick bool
	// logf reports progress; its format has no newline.
	logf func(format string, args ...any)
}

// measurement produces one section of the report.
type measurement struct {
	id string
	// about is its duration on a quiet machine with two cores.
	about   string
	measure func(context.Context, bench) (section, error)
}

var measurements = []measurement{
	{"scale", "12m", measureScale},
	{"failover", "15m", measureFailover},
	{"pauses", "10m", measurePauses},
}

func perf(ctx context.Context, args []string, output io.Writer) (err error) {
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	flags.SetOutput(output)
	dir := flags.String("dir", "artifacts/perf", "Folder for the report and its data.")
	quick := flags.Bool("quick", false, "Measure as little as shows that the measurements work; the figures mean nothing.")
	onlyReport := flags.Bool("report", false,
		"End with 0 though a figure misses its goal. It ends with 1 otherwise, unless it was quick.")
	only := flags.String("only", "scale,failover,pauses", "Measure only these.")
	seed := flags.Uint64("seed", 0, "Seed of all random choices; 0 takes a new one.")
	base := flags.String("starts", "",
		"Compare only the starts of this checkout and of the one in this folder, and write base-starts.txt and head-starts.txt.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("reading the arguments: unexpected %q", flags.Arg(0))
	}
	c := campaign{output: output, report: report{Started: time.Now(), Machine: thisMachine(),
		Seed: program.Seed(*seed)}}
	var chosen []measurement
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.IndexFunc(measurements, func(m measurement) bool { return m.id == name })
		if i < 0 {
			return fmt.Errorf("reading -only: there is no %q; there are %s", name, flags.Lookup("only").DefValue)
		}
		chosen = append(chosen, measurements[i])
	}
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		return errors.New("USE_EXISTING_CLUSTER is true: unset it, as nothing can be measured without the API server's audit log")
	}
	fmt.Fprintf(output, "seed %d\n", c.report.Seed)
	// controller-runtime warns if no logger is set 30 seconds after it is first used.
	log.SetLogger(logr.Discard())
	c.dir, c.onlyReport, c.report.Quick = *dir, *onlyReport, *quick
	c.logf("building the operator")
	if c.checkout, err = build(ctx, ".", filepath.Join(*dir, "bin")); err != nil {
		return err
	}
	if *base != "" {
		return c.compareStarts(ctx, *base)
	}
	c.report.Commit = commit(ctx)
	return c.run(ctx, chosen)
}

// campaign is one run of several measurements.
type campaign struct {
	output   io.Writer
	dir      string
	checkout checkout
	// onlyReport makes missed goals no error.
	onlyReport bool
	report     report
}

// run makes the measurements one after the other, because concurrent ones would disturb each other. It continues after
// a failure. An interrupted run keeps the results so far.
func (c *campaign) run(ctx context.Context, chosen []measurement) error {
	var errs []error
	for i, m := range chosen {
		c.logf("%s: measurement %d of %d, about %s", m.id, i+1, len(chosen), m.about)
		c.report.Sections = append(c.report.Sections, c.measure(ctx, m))
		c.report.Took = time.Since(c.report.Started)
		// After each measurement, so a crash loses only one.
		errs = append(errs, c.report.write(c.dir))
	}
	fmt.Fprintf(c.output, "\n%s\nthe report is in %s, for machines in %s beside it\n",
		c.report, filepath.Join(c.dir, markdownFile), jsonFile)
	if failed, unmeasured := c.report.failed(), c.report.with(absent); len(failed) > 0 {
		errs = append(errs, fmt.Errorf("%d of %d measurements broke off", len(failed), len(c.report.Sections)))
	} else if len(unmeasured) > 0 {
		errs = append(errs, fmt.Errorf("%d figures were not measured, the first is %s", len(unmeasured), unmeasured[0].ID))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// A quick run has too few runs to judge the goals.
	if n := len(c.report.with(missed)); n > 0 && !c.onlyReport && !c.report.Quick {
		return fmt.Errorf("%w: %d were missed", errMissed, n)
	}
	return nil
}

// measure makes one measurement, unless ctx is done.
func (c *campaign) measure(ctx context.Context, m measurement) section {
	began := time.Now()
	made, err := section{}, ctx.Err()
	if err == nil {
		made, err = m.measure(ctx, bench{checkout: c.checkout, seed: c.report.Seed, quick: c.report.Quick,
			logf: func(format string, args ...any) { c.logf(m.id+": "+format, args...) }})
	}
	made.ID, made.Took = m.id, time.Since(began)
	if err != nil {
		made.Failure = err.Error()
		c.logf("%s: broke off: %v", m.id, err)
	}
	return made
}

// logf prints a line of progress with the time since the start.
func (c *campaign) logf(format string, args ...any) {
	fmt.Fprintf(c.output, "[%6s] %s\n", time.Since(c.report.Started).Round(time.Second), fmt.Sprintf(format, args...))
}

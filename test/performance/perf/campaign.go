package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/performance/environment"
)

// measurement makes one section of the report.
type measurement struct {
	id string
	// about is how long it takes on a quiet machine of two cores.
	about   string
	measure func(context.Context, environment.Parameters) (figures.Section, error)
}

// campaign is one run of several measurements.
type campaign struct {
	clock  clock.WithTicker
	output io.Writer
	dir    string
	// onlyReport is that a missed goal is no error.
	onlyReport bool
	report     figures.Report
}

// run makes the measurements one after the other, as each wants the machine for
// itself. One that fails does not stop the others. An interrupted run keeps what was measured until
// then.
func (c *campaign) run(ctx context.Context, chosen []measurement, checkout environment.Checkout) error {
	var errs []error
	for i, m := range chosen {
		c.say("%s: measurement %d of %d, about %s", m.id, i+1, len(chosen), m.about)
		c.report.Sections = append(c.report.Sections, c.measure(ctx, m, checkout))
		c.report.Took = c.clock.Since(c.report.Started)
		// Each time, so that little is lost whatever happens.
		errs = append(errs, figures.Write(c.dir, c.report))
	}
	fmt.Fprintln(c.output)
	errs = append(errs, c.report.WriteTable(c.output))
	fmt.Fprintf(c.output, "\nthe report is in %s, for machines in %s beside it\n",
		filepath.Join(c.dir, figures.MarkdownFile), figures.JSONFile)
	return errors.Join(program.Undone(errors.Join(append(errs, broken(c.report))...)), c.missed())
}

// measure makes one of them, unless all is over.
func (c *campaign) measure(ctx context.Context, m measurement, checkout environment.Checkout) figures.Section {
	began := c.clock.Now()
	section, err := figures.Section{}, ctx.Err()
	if err == nil {
		section, err = m.measure(ctx, environment.Parameters{
			Checkout: checkout, Seed: c.report.Seed, Quick: c.report.Quick, Clock: c.clock,
			Say: func(format string, args ...any) { c.say(m.id+": "+format, args...) },
		})
	}
	section.ID, section.Took = m.id, c.clock.Since(began)
	if err != nil {
		section.Failure = err.Error()
		c.say("%s: broke off: %v", m.id, err)
	}
	return section
}

// say prints a line of progress with the time since the start.
func (c *campaign) say(format string, args ...any) {
	fmt.Fprintf(c.output, "[%6s] %s\n", c.clock.Since(c.report.Started).Round(time.Second), fmt.Sprintf(format, args...))
}

// broken is nil if all selected figures were measured.
func broken(r figures.Report) error {
	if failed := r.Failed(); len(failed) > 0 {
		return fmt.Errorf("%d of %d measurements broke off", len(failed), len(r.Sections))
	}
	if absent := r.Absent(); len(absent) > 0 {
		return fmt.Errorf("%d figures were not measured, the first is %s", len(absent), absent[0].ID)
	}
	return nil
}

// missed is an error if a goal is missed. A quick run has too few figures to miss one.
func (c *campaign) missed() error {
	if n := len(c.report.Missed()); n > 0 && !c.onlyReport && !c.report.Quick {
		return fmt.Errorf("%w: %d were missed", errMissed, n)
	}
	return nil
}

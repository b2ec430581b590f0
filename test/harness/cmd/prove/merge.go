// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/report"
)

// mergeOptions are the command line of merge.
type mergeOptions struct {
	dirs              []string
	dir, output, base string
}

// newMerge returns the command that joins the reports of shards.
func newMerge(work func(o mergeOptions, output io.Writer) error) *cobra.Command {
	var o mergeOptions
	c := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Merge the reports of all shards into one report",
		Long: `merge reads the directories that all shards of one seed have written. It writes one summary, one
JUnit file and one directory with the runs that have findings. A finding of several shards is
reported once. The exit code is that of a run of all plans, and 2 if a shard is missing or incomplete.`,
		Example: `  prove --seed 7 --shard 1/2 --dir shards/1
  prove --seed 7 --shard 2/2 --dir shards/2
  prove merge shards/*                 # the report in artifacts/prove
  prove merge --base main head         # compare two reports`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, dirs []string) error {
			o.dirs = dirs
			if err := o.complete(); err != nil {
				return fmt.Errorf("reading the arguments: %w", err)
			}
			return work(o, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.dir, "dir", "artifacts/prove", "directory for the summary and for the runs with findings")
	flags.StringVar(&o.base, "base", "", "directory with the report of another version: compare the requests of clean "+
		"runs, and exit with 1 only for new findings and runs that prove nothing")
	flags.StringVar(&o.output, "output", outputText,
		"output format: text, or json, which prints the summary on standard output and the text on standard error")
	return c
}

// complete checks the options. An earlier merge is cleared from the folder of the report, so the
// shards are in others.
func (o *mergeOptions) complete() error {
	if o.output != outputText && o.output != outputJSON {
		return fmt.Errorf("--output=%s is neither text nor json", o.output)
	}
	if slices.ContainsFunc(o.dirs, func(dir string) bool { return sameFile(dir, o.dir) }) {
		return fmt.Errorf("--dir=%s is the directory of a shard", o.dir)
	}
	if o.base != "" && sameFile(o.base, o.dir) {
		return fmt.Errorf("--dir=%s is the directory of --base", o.dir)
	}
	return nil
}

// shardReport is the report of a shard.
type shardReport struct {
	shard
	dir   string
	sweep *report.Sweep
}

// merge joins the reports of shards.
func merge(o mergeOptions, stdout io.Writer) error {
	return inForm(o.output, o.dir, stdout, func(output io.Writer) error {
		base, err := loadBase(o.base)
		if err != nil {
			return err
		}
		parts, missing, err := loadShards(o.dirs)
		if err != nil {
			return err
		}
		if err := report.Clear(o.dir); err != nil {
			return err
		}
		merged := &report.Sweep{Seed: parts[0].sweep.Seed, Except: parts[0].sweep.Except}
		for _, p := range parts {
			prefix := fmt.Sprintf("shard%d-", p.index)
			merged.Append(p.sweep, prefix)
			if err := p.sweep.CopyRuns(p.dir, o.dir, prefix); err != nil {
				return program.Undone(fmt.Errorf("copying the runs of shard %s: %w", p.String(), err))
			}
		}
		if missing != nil {
			merged.Undone = missing.Error()
		}
		return errors.Join(program.Undone(missing), conclude(merged, base, o.dir, output))
	})
}

// loadBase reads the report of the base, or returns nil if there is none.
func loadBase(dir string) (*report.Sweep, error) {
	if dir == "" {
		return nil, nil
	}
	return report.LoadBase(dir)
}

// loadShards reads the reports of shards and returns them in the order of their numbers. missing
// describes the shards whose plans were not all run. Reports of different sweeps are an error.
func loadShards(dirs []string) (parts []shardReport, missing, err error) {
	var gaps []error
	for _, dir := range dirs {
		p, err := loadShard(dir)
		if errors.Is(err, fs.ErrNotExist) {
			gaps = append(gaps, err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for _, other := range parts {
			if err := p.fits(other); err != nil {
				return nil, nil, fmt.Errorf("merging %s and %s: %w", other.dir, dir, err)
			}
		}
		if p.sweep.Undone != "" {
			gaps = append(gaps, fmt.Errorf("shard %s ended early: %s", p.String(), p.sweep.Undone))
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, nil, errors.Join(gaps...)
	}
	for i := uint64(1); i <= parts[0].count; i++ {
		if !slices.ContainsFunc(parts, func(p shardReport) bool { return p.index == i }) {
			gaps = append(gaps, fmt.Errorf("shard %d/%d is missing", i, parts[0].count))
		}
	}
	slices.SortFunc(parts, func(a, b shardReport) int { return cmp.Compare(a.index, b.index) })
	return parts, errors.Join(gaps...), nil
}

// loadShard reads the report of one shard.
func loadShard(dir string) (shardReport, error) {
	p := shardReport{dir: dir}
	var err error
	if p.sweep, err = report.LoadSweep(dir); err != nil {
		return p, err
	}
	if err := p.Set(cmp.Or(p.sweep.Shard, "1/1")); err != nil {
		return p, fmt.Errorf("loading a shard from %s: %w", dir, err)
	}
	return p, nil
}

// fits reports an error if two reports are not of different shards of one sweep.
func (r shardReport) fits(o shardReport) error {
	switch {
	case r.count != o.count:
		return fmt.Errorf("they are of %d and of %d shards", o.count, r.count)
	case r.index == o.index:
		return fmt.Errorf("both are shard %s", r.String())
	case r.sweep.Seed != o.sweep.Seed:
		return fmt.Errorf("they have the seeds %d and %d", o.sweep.Seed, r.sweep.Seed)
	case !reflect.DeepEqual(r.sweep.Except, o.sweep.Except):
		return errors.New("their subjects have other exceptions")
	}
	return nil
}

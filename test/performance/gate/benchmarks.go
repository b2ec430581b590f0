package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"

	"leasehold.dev/test/performance/gate/trees"
)

const (
	// benchmarkFile is where the benchmarks are that the gate runs, below benchmarked.
	benchmarkFile = "bench_test.go"
	benchmarked   = "controllers"
	// leastRounds is how many samples a U test needs to find a difference at alpha.
	leastRounds = 5
)

// thresholds are of the U test. Hundreds of samples are compared, so alpha is small.
var thresholds = &benchmath.Thresholds{CompareAlpha: 0.01}

// tolerances are by how much the median of a unit may be higher, as a share. Allocations have
// none. A time depends on the machine, and a loop in a loop exceeds this many times over.
var tolerances = map[string]float64{"allocs/op": 0, "B/op": 0.01, "sec/op": 0.5}

// modes are how the benchmarks are run, with the units that each is for. What is counted is
// counted over the same work. What is timed takes less than a time slice of the scheduler.
var modes = []struct {
	flags []string
	units []string
}{
	{[]string{"-test.benchtime=100x"}, []string{"allocs/op", "B/op"}},
	{[]string{"-test.benchtime=1ms", "-test.count=3"}, []string{"sec/op"}},
}

// measurement is a benchmark and a unit, as in "tenant.Decide/n=4 allocs/op".
type measurement struct{ name, unit string }

func (m measurement) String() string { return "benchmarks/" + m.name + " " + m.unit }

// samples are all values of each measurement.
type samples map[measurement][]float64

// checkBenchmarks runs the benchmarks of the head in both trees, in turns.
func checkBenchmarks(ctx context.Context, o options, both *trees.Trees) (found []finding, err error) {
	work, err := os.MkdirTemp("", "gate-benchmarks-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for compiled tests: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	packages, err := findBenchmarks(both.Head)
	if err != nil {
		return nil, err
	}
	var base, head []compiled
	for _, pkg := range packages {
		progress("compiling the benchmarks of %s", pkg)
		b, h, err := compileBoth(ctx, both, pkg, work)
		if err != nil {
			return nil, err
		}
		head = append(head, h)
		if b.path != "" {
			base = append(base, b)
		}
	}
	before, after := samples{}, samples{}
	// What looks worse is measured again, because the machine may have done something else.
	for range 2 {
		for round := range o.rounds {
			progress("benchmarks: round %d of %d", round+1, o.rounds)
			turns := []func() error{
				func() error { return runAll(ctx, base, before) }, func() error { return runAll(ctx, head, after) },
			}
			if round%2 == 1 {
				slices.Reverse(turns)
			}
			if err := errors.Join(turns[0](), turns[1]()); err != nil {
				return nil, err
			}
		}
		if found = compareSamples(before, after); len(worse(found)) == 0 {
			break
		}
	}
	return found, nil
}

// findBenchmarks returns the packages of a tree that have benchmarks, below benchmarked.
func findBenchmarks(tree string) (packages []string, err error) {
	root := filepath.Join(tree, benchmarked)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != benchmarkFile {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		packages = append(packages, filepath.ToSlash(pkg))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for benchmarks: %w", err)
	}
	return packages, nil
}

// compiled is the test program of one package.
type compiled struct{ pkg, dir, path string }

// compileBoth compiles the tests of a package in both trees. The base gets the benchmarks of
// the head, so that a changed benchmark measures both, or its own where those do not compile.
// A package that is new has no program of the base.
func compileBoth(ctx context.Context, both *trees.Trees, pkg, work string) (base, head compiled, err error) {
	at := func(tree, side string) compiled {
		return compiled{pkg, filepath.Join(tree, benchmarked, filepath.FromSlash(pkg)),
			filepath.Join(work, side+"-"+strings.ReplaceAll(pkg, "/", "-"))}
	}
	base, head = at(both.Base, "base"), at(both.Head, "head")
	if output, err := head.compile(ctx); err != nil {
		return base, head, fmt.Errorf("compiling the tests of %s: %w\n%s", pkg, err, output)
	}
	if _, err := os.Stat(base.dir); errors.Is(err, fs.ErrNotExist) {
		return compiled{}, head, nil
	} else if err != nil {
		return base, head, fmt.Errorf("looking for %s in the base: %w", pkg, err)
	}
	overlay := base.path + ".json"
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(base.dir, benchmarkFile): filepath.Join(head.dir, benchmarkFile),
	}})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		return base, head, fmt.Errorf("writing an overlay: %w", err)
	}
	if _, err := base.compile(ctx, "-overlay", overlay); err != nil {
		progress("the base does not compile with the head's benchmarks of %s and runs its own", pkg)
		if output, err := base.compile(ctx); err != nil {
			return base, head, fmt.Errorf("compiling the tests of %s in the base: %w\n%s", pkg, err, output)
		}
	}
	return base, head, nil
}

func (c compiled) compile(ctx context.Context, flags ...string) (output []byte, err error) {
	// #nosec G204 -- our arguments
	command := exec.CommandContext(ctx, "go", append(append([]string{"test", "-c", "-o", c.path}, flags...), ".")...)
	command.Dir = c.dir
	return command.CombinedOutput()
}

func runAll(ctx context.Context, programs []compiled, into samples) error {
	for _, p := range programs {
		for _, mode := range modes {
			flags := append([]string{"-test.run=^$", "-test.bench=.", "-test.cpu=1", "-test.timeout=5m"}, mode.flags...)
			command := exec.CommandContext(ctx, p.path, flags...) // #nosec G204 -- compiled by this program
			command.Dir = p.dir
			output, err := command.CombinedOutput()
			if err != nil {
				return fmt.Errorf("running the benchmarks of %s: %w\n%s", p.pkg, err, output)
			}
			if err := into.read(p.pkg, output, mode.units); err != nil {
				return err
			}
		}
	}
	return nil
}

// read adds the values of some units from the output of benchmarks.
func (s samples) read(pkg string, output []byte, units []string) error {
	reader := benchfmt.NewReader(bytes.NewReader(output), pkg)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return fmt.Errorf("reading the benchmarks of %s: %w", pkg, record)
		case *benchfmt.Result:
			for _, unit := range units {
				value, ok := record.Value(unit)
				if !ok {
					return fmt.Errorf("reading the benchmarks of %s: %s has no %s: call b.ReportAllocs", pkg, record.Name, unit)
				}
				m := measurement{pkg + "." + string(record.Name), unit}
				s[m] = append(s[m], value)
			}
		}
	}
	if err := reader.Err(); err != nil {
		return fmt.Errorf("reading the benchmarks of %s: %w", pkg, err)
	}
	return nil
}

// compareSamples compares medians. A difference counts if a U test finds it significant, and if
// the median and the best run exceed the tolerance of the unit: on a busy machine many runs are
// disturbed, and the best one is not.
func compareSamples(base, head samples) (found []finding) {
	byName := func(a, b measurement) int { return strings.Compare(a.String(), b.String()) }
	for _, m := range slices.SortedFunc(maps.Keys(head), byName) {
		format := func(value float64) string { return benchunit.Scale(value, benchunit.ClassOf(m.unit)) }
		after := benchmath.NewSample(head[m], thresholds)
		h := benchmath.AssumeNothing.Summary(after, 0.95).Center
		f := finding{id: m.String(), head: format(h), verdict: same}
		if len(base[m]) == 0 {
			f.verdict, f.reason = added, "the base has no such benchmark"
			found = append(found, f)
			continue
		}
		before := benchmath.NewSample(base[m], thresholds)
		b := benchmath.AssumeNothing.Summary(before, 0.95).Center
		f.base = format(b)
		test, tolerated := benchmath.AssumeNothing.Compare(before, after), 1+tolerances[m.unit]
		significant := test.P < test.Alpha
		least, best := slices.Min(base[m]), slices.Min(head[m])
		switch {
		case significant && h > b*tolerated && best > least*tolerated:
			f.verdict, f.reason = isWorse, fmt.Sprintf("%s, %s", test.FormatDelta(b, h), test)
		case significant && b > h*tolerated && least > best*tolerated:
			f.verdict, f.reason = better, fmt.Sprintf("%s, %s", test.FormatDelta(b, h), test)
		}
		found = append(found, f)
	}
	return found
}

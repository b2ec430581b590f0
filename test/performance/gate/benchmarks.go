// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"
)

// thresholds are those of the U test. Alpha is small because hundreds of samples are compared.
var thresholds = &benchmath.Thresholds{CompareAlpha: 0.01}

// tolerances are the relative increases of a unit's median that are allowed. Allocations have none.
// Times depend on the machine, and a quadratic loop exceeds this tolerance many times over.
var tolerances = map[string]float64{"allocs/op": 0, "B/op": 0.01, "sec/op": 0.5, "live-B/op": 0.5}

// measured has the units of each file.
var measured = map[string][]string{"counts.txt": {"allocs/op", "B/op"}, "times.txt": {"sec/op"},
	"heap.txt": {"live-B/op"}, "starts.txt": {"sec/op"}}

// samples has the values of each benchmark and unit, as in "tenant.Decide/n=4 allocs/op".
type samples map[string][]float64

// readSamples reads the benchmark output of one side, base or head, in a folder.
func readSamples(dir, side string) (samples, error) {
	paths, err := filepath.Glob(filepath.Join(dir, side+"-*.txt"))
	if err != nil {
		return nil, fmt.Errorf("listing what was measured: %w", err)
	}
	s, files := samples{}, benchfmt.Files{Paths: paths}
	for files.Scan() {
		switch record := files.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			for _, unit := range measured[strings.TrimPrefix(filepath.Base(record.GetConfig(".file")), side+"-")] {
				value, ok := record.Value(unit)
				if !ok {
					return nil, fmt.Errorf("benchmark %s of %s has no %s", record.Name, side, unit)
				}
				name := path.Base(record.GetConfig("pkg")) + "." + string(record.Name) + " " + unit
				s[name] = append(s[name], value)
			}
		}
	}
	return s, files.Err()
}

// compare compares medians. A difference counts if a U test finds it significant, and if both the median
// and the best run exceed the tolerance: on a busy machine many runs are slow, but not the best one.
func compare(base, head samples) (found []finding) {
	for _, name := range slices.Sorted(maps.Keys(head)) {
		unit := name[strings.LastIndex(name, " ")+1:]
		format := func(value float64) string { return benchunit.Scale(value, benchunit.ClassOf(unit)) }
		after := benchmath.NewSample(head[name], thresholds)
		h := benchmath.AssumeNothing.Summary(after, 0.95).Center
		f := finding{id: "benchmarks/" + name, head: format(h), verdict: same}
		if len(base[name]) == 0 {
			f.verdict, f.reason = added, "the base has no such benchmark"
			found = append(found, f)
			continue
		}
		before := benchmath.NewSample(base[name], thresholds)
		b := benchmath.AssumeNothing.Summary(before, 0.95).Center
		f.base = format(b)
		test, tolerated := benchmath.AssumeNothing.Compare(before, after), 1+tolerances[unit]
		least, best := slices.Min(base[name]), slices.Min(head[name])
		switch {
		case test.P >= test.Alpha:
		case h > b*tolerated && best > least*tolerated:
			f.verdict, f.reason = worse, fmt.Sprintf("%s, %s", test.FormatDelta(b, h), test)
		case b > h*tolerated && least > best*tolerated:
			f.verdict, f.reason = better, fmt.Sprintf("%s, %s", test.FormatDelta(b, h), test)
		}
		found = append(found, f)
	}
	return found
}

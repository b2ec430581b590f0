package benchmarks

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/benchmark/parse"
)

// What is counted is counted of the same work each time. What is timed is timed for
// less than the machine lets a process run, and often: the best of it was disturbed by
// nobody, even where others want the machine.
var (
	counting = []string{"-test.benchtime=100x"}
	timing   = []string{"-test.benchtime=1ms", "-test.count=10"}
)

// key names a benchmark and the size that it was run at.
type key struct {
	// name is the package's and the function's, as in tenant.Decide.
	name string
	// size is zero where there is none.
	size int
}

func (k key) String() string {
	if k.size == 0 {
		return k.name
	}
	return fmt.Sprintf("%s/n=%d", k.name, k.size)
}

// figures are what one call costs.
type figures struct {
	allocs, bytes uint64
	nanoseconds   float64
}

// results are the least that was measured. What is more came from outside: from the
// runtime's own work, or from other programs.
type results map[key]figures

func (r results) add(k key, f figures) {
	if known, ok := r[k]; ok {
		f = figures{min(f.allocs, known.allocs), min(f.bytes, known.bytes), min(f.nanoseconds, known.nanoseconds)}
	}
	r[k] = f
}

// counted and timed leave of what was measured what it was measured for.
func counted(f figures) figures { return figures{f.allocs, f.bytes, math.Inf(1)} }
func timed(f figures) figures   { return figures{math.MaxUint64, math.MaxUint64, f.nanoseconds} }

// run runs all benchmarks of a program, to count and to time.
func (p program) run(ctx context.Context, into results) error {
	for _, way := range []struct {
		flags []string
		part  func(figures) figures
	}{{counting, counted}, {timing, timed}} {
		flags := append([]string{"-test.run=^$", "-test.bench=.", "-test.cpu=1", "-test.timeout=5m"}, way.flags...)
		command := exec.CommandContext(ctx, p.path, flags...) // #nosec G204 -- the program was just compiled here
		command.Dir = p.dir
		said, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("running the benchmarks of %s in %s: %w\n%s", p.pkg, p.dir, err, said)
		}
		if err := into.read(p.pkg, said, way.part); err != nil {
			return err
		}
	}
	return nil
}

var sized = regexp.MustCompile(`^Benchmark(.+?)(?:/n=(\d+))?$`)

func (r results) read(pkg string, said []byte, part func(figures) figures) error {
	all, err := parse.ParseSet(bytes.NewReader(said))
	if err != nil {
		return fmt.Errorf("reading the benchmarks of %s: %w", pkg, err)
	}
	for name, runs := range all {
		parts := sized.FindStringSubmatch(name)
		if parts == nil {
			return fmt.Errorf("reading the benchmarks of %s: %q has no name", pkg, name)
		}
		k := key{name: pkg + "." + strings.ReplaceAll(parts[1], "/", ".")}
		if parts[2] != "" {
			if k.size, err = strconv.Atoi(parts[2]); err != nil {
				return fmt.Errorf("reading the size of %s: %w", name, err)
			}
		}
		for _, run := range runs {
			if run.Measured&parse.AllocsPerOp == 0 {
				return fmt.Errorf("reading the benchmarks of %s: %s does not call b.ReportAllocs", pkg, name)
			}
			r.add(k, part(figures{run.AllocsPerOp, run.AllocedBytesPerOp, run.NsPerOp}))
		}
	}
	return nil
}

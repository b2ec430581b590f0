package benchmarks

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/benchmark/parse"
)

// iterations is how often a function is called in a round. A number, and not a time,
// so that what is counted is counted of the same work.
const iterations = 100

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

// run runs all benchmarks of a program once.
func (p program) run(ctx context.Context, into results) error {
	// #nosec G204 -- the program was just compiled here.
	command := exec.CommandContext(ctx, p.path, "-test.run=^$", "-test.bench=.", "-test.cpu=1", "-test.timeout=5m",
		fmt.Sprintf("-test.benchtime=%dx", iterations))
	command.Dir = p.dir
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the benchmarks of %s in %s: %w\n%s", p.pkg, p.dir, err, said)
	}
	return into.read(p.pkg, said)
}

var sized = regexp.MustCompile(`^Benchmark(.+?)(?:/n=(\d+))?$`)

func (r results) read(pkg string, said []byte) error {
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
			r.add(k, figures{run.AllocsPerOp, run.AllocedBytesPerOp, run.NsPerOp})
		}
	}
	return nil
}

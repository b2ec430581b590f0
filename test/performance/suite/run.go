package suite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2/reporters"

	"leasehold.dev/test/performance/stage"
)

const (
	// processes are as many as `make integration` has.
	processes = 6
	// between two signs of life.
	sign = 15 * time.Second
	// cleanUp is how long the suites may take to stop what they have started.
	cleanUp = time.Minute

	junitFile = "junit-integration.xml"
	logFile   = "ginkgo.log"
)

// ran is one run of the integration suites.
type ran struct {
	wall, cpu time.Duration
	cores     int
	suites    int
	specs     []spec
}

type spec struct {
	suite, name string
	seconds     float64
}

// runSuites runs them once. A spec that fails is an error: its time is that of a
// failure.
func runSuites(ctx context.Context, b stage.Bench) (*ran, error) {
	ginkgo := filepath.Join(b.Checkout.Dir, "bin", "tools", "ginkgo")
	if _, err := os.Stat(ginkgo); err != nil {
		return nil, fmt.Errorf("looking for ginkgo, which `make bin/tools/ginkgo` builds: %w", err)
	}
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for what the suites say: %w", err)
	}
	path := filepath.Join(b.Dir, logFile)
	log, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("making a file for what the suites say: %w", err)
	}
	run := command(ctx, ginkgo, b)
	run.Stdout, run.Stderr = log, log
	b.Say("integration suites: begin, their output is in %s", path)
	began := b.Clock.Now()
	err = errors.Join(follow(ctx, run, b, path), log.Close())
	if run.ProcessState == nil || ctx.Err() != nil {
		return nil, fmt.Errorf("running the integration suites: %w", errors.Join(ctx.Err(), err))
	}
	r := &ran{wall: b.Clock.Since(began), cpu: run.ProcessState.UserTime() + run.ProcessState.SystemTime(), cores: runtime.NumCPU()}
	reportErr := r.read(filepath.Join(b.Dir, junitFile))
	if err != nil {
		err = fmt.Errorf("running the integration suites, see %s: %w", path, err)
	}
	return r, errors.Join(err, reportErr)
}

// command is what `make integration` runs, or one suite with a few specs.
func command(ctx context.Context, ginkgo string, b stage.Bench) *exec.Cmd {
	args := []string{
		"run", "-r", "--procs=" + strconv.Itoa(processes), "--randomize-all", "--seed=" + strconv.FormatUint(b.Seed>>1, 10),
		"--keep-going", "--timeout=45m", "--poll-progress-after=60s", "--no-color",
		"--output-dir=" + b.Dir, "--junit-report=" + junitFile,
	}
	if b.Quick {
		args = append(args, "--focus=gets its namespaces|refuses a name that another", "./test/integration/tenant")
	} else {
		args = append(args, "./test/integration")
	}
	run := exec.CommandContext(ctx, ginkgo, args...)
	run.Dir = b.Checkout.Dir
	run.Env = append(os.Environ(), "ARTIFACTS="+b.Dir)
	// A group of its own, so that who presses Ctrl-C interrupts the suites once, by
	// Cancel: a second time would keep them from stopping what they have started.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGINT) }
	run.WaitDelay = cleanUp
	return run
}

// follow waits for the command, and gives signs of life meanwhile.
func follow(ctx context.Context, run *exec.Cmd, b stage.Bench, log string) error {
	if err := run.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- run.Wait() }()
	ticker := b.Clock.NewTicker(sign)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C():
			if ctx.Err() != nil {
				b.Say("integration suites: waiting until they have stopped what they have started")
				continue
			}
			// What cannot be read now is read at the next sign.
			said, err := os.ReadFile(log)
			if err == nil {
				b.Say("integration suites: %d specs done", bytes.Count(said, []byte("•")))
			}
		}
	}
}

// read takes the specs from the report; what runs around them is not among them.
func (r *ran) read(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the report of the suites: %w", err)
	}
	var report reporters.JUnitTestSuites
	if err := xml.Unmarshal(data, &report); err != nil {
		return fmt.Errorf("reading the report of the suites: %w", err)
	}
	var failed []string
	for _, suite := range report.TestSuites {
		before := len(r.specs)
		for _, c := range suite.TestCases {
			name, isSpec := strings.CutPrefix(c.Name, "[It] ")
			switch {
			case c.Failure != nil || c.Error != nil:
				failed = append(failed, suite.Name+": "+c.Name)
			case isSpec && c.Skipped == nil:
				r.specs = append(r.specs, spec{suite.Name, name, c.Time})
			}
		}
		if len(r.specs) > before {
			r.suites++
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("reading the report of the suites: failed: %s", strings.Join(failed, "; "))
	case len(r.specs) == 0:
		return fmt.Errorf("reading the report of the suites: %w", errNoSpecs)
	}
	return nil
}

// slowest are the n specs that took longest.
func (r *ran) slowest(n int) []spec {
	sorted := slices.SortedStableFunc(slices.Values(r.specs), func(a, b spec) int { return cmp.Compare(b.seconds, a.seconds) })
	return sorted[:min(n, len(sorted))]
}

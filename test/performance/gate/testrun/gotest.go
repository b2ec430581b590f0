package testrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// event is a line of what go tool test2json makes of a test's output.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// Suite is the compiled tests of one package.
type Suite struct {
	tree Tree
	// pkg is as in ./test/harness/env, and program the file, in a folder of its own.
	pkg, program string
}

// Compile compiles the tests of a package, as ./test/harness/env. That they do not
// compile is no error: the problem is what the compiler said.
func (t Tree) Compile(ctx context.Context, pkg string) (s Suite, problem string, err error) {
	work, err := os.MkdirTemp(t.Work, "tests-")
	if err != nil {
		return Suite{}, "", fmt.Errorf("making a folder for compiled tests: %w", err)
	}
	s = Suite{tree: t, pkg: pkg, program: filepath.Join(work, "tests")}
	args := []string{"test", "-c", "-o", s.program}
	if t.Race {
		args = append(args, "-race")
	}
	compile := exec.CommandContext(ctx, "go", append(args, pkg)...) // #nosec G204 -- the arguments are ours
	compile.Dir, compile.Env = t.Dir, t.Env
	said, err := compile.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Suite{}, "", ctx.Err()
	case errors.As(err, &exit):
		return Suite{}, Tail(string(said), 2000), nil
	case err != nil:
		return Suite{}, "", fmt.Errorf("compiling the tests of %s: %w", pkg, err)
	}
	return s, "", nil
}

// Go runs tests as often as it is told: all of them if no names are given. What has
// not ended when ctx ends is not in the outcome.
func (s Suite) Go(ctx context.Context, names []string, count int) (Outcome, error) {
	args := []string{"-test.v=test2json", "-test.paniconexit0", "-test.count=" + strconv.Itoa(count), "-test.timeout=0"}
	if len(names) > 0 {
		args = append(args, "-test.run="+pattern(names))
	}
	dir := filepath.Join(s.tree.Dir, filepath.FromSlash(s.pkg))
	ok, said, err := s.tree.run(ctx, dir, filepath.Dir(s.program), s.program, args...)
	if err != nil {
		return Outcome{}, err
	}
	c := collector{said: map[string]string{}}
	if err := c.read(ctx, said); err != nil {
		return Outcome{}, err
	}
	o := Outcome{Results: c.results}
	if !ok && ctx.Err() == nil && !c.failed {
		o.Problem = Tail(c.rest, 2000)
	}
	return o, nil
}

func pattern(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// GoArgs are the arguments of go test that do the same as Compile and Go.
func (t Tree) GoArgs(pkg string, names []string, count int) []string {
	args := []string{"-count=" + strconv.Itoa(count), "-timeout=1h"}
	if t.Race {
		args = append(args, "-race")
	}
	if len(names) > 0 {
		args = append(args, "-run="+pattern(names))
	}
	return append(args, pkg)
}

// collector makes results of events.
type collector struct {
	results []Result
	// said is the output of each test, with that of its subtests, since it began, and
	// rest what belongs to no test.
	said map[string]string
	rest string
	// failed is whether a test has failed.
	failed bool
}

// read has the go command find the events in what a test has said, with how long each
// test has taken by its own account, which -t asks for. It does so even if the time
// of the tests is up.
func (c *collector) read(ctx context.Context, said []byte) error {
	convert := exec.CommandContext(context.WithoutCancel(ctx), "go", "tool", "test2json", "-t")
	convert.Stdin = bytes.NewReader(said)
	events, err := convert.Output()
	if err != nil {
		return fmt.Errorf("finding the tests in what was said: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(events)); ; {
		var e event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading what became of tests: %w", err)
		}
		c.take(e)
	}
}

func (c *collector) take(e event) {
	name, _, isSub := strings.Cut(e.Test, "/")
	states := map[string]State{"pass": Passed, "fail": Failed, "skip": Skipped}
	switch {
	case strings.HasSuffix(e.Action, "output") && name != "":
		c.said[name] += e.Output
	case strings.HasSuffix(e.Action, "output"):
		c.rest += e.Output
	case name == "" || isSub:
	case e.Action == "run":
		c.said[name] = ""
	default:
		if state, ended := states[e.Action]; ended {
			c.failed = c.failed || state == Failed
			took := time.Duration(e.Elapsed * float64(time.Second))
			c.results = append(c.results, Result{Name: name, State: state, Took: took, Said: c.said[name]})
		}
	}
}

// Package testrun runs tests of a tree for those checks of the gate that are about
// tests: single Go tests, and single specs of the Ginkgo suites.
package testrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"leasehold.dev/test/harness/env"
)

// cleanUp is how long tests may take to stop what they have started, when their
// time is up.
const cleanUp = time.Minute

// Result is what became of one test or spec at one time.
type Result struct {
	// Name is that of the function, or the texts of the spec and its containers.
	Name  string
	State State
	Took  time.Duration
	// Said is its output, or why it failed.
	Said string
}

// State is how a test ended.
type State string

// The states.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
)

// Outcome is what a command has run before it ended, or before its time was up.
type Outcome struct {
	Results []Result
	// Rounds is how often all specs that were asked for have passed. Go tests are each
	// in the results as often as they ran.
	Rounds int
	// Problem is why the command failed if no test of it did, as when the tests do
	// not compile. Empty when it did not.
	Problem string
}

// Tree is a tree whose tests can be run. See New.
type Tree struct {
	// Dir is the root of the module.
	Dir string
	// Race asks for the race detector.
	Race bool
	// Ginkgo is the program of that name. Empty for who runs no spec.
	Ginkgo string
	// Work is a folder for reports.
	Work string
	// Env is what tests find in their environment.
	Env []string
}

// New returns a tree with the environment of the checkout that this runs in: one
// without a bin/ of its own has no control plane and no S3 server.
func New(dir, work string) (Tree, error) {
	assets, err := env.FindAssets("")
	if err != nil {
		return Tree{}, err
	}
	s3, err := env.FindS3Server("")
	if err != nil {
		return Tree{}, err
	}
	t := Tree{Env: append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "S3SERVER="+s3)}
	for path, absolute := range map[string]*string{dir: &t.Dir, work: &t.Work} {
		if *absolute, err = filepath.Abs(path); err != nil {
			return Tree{}, fmt.Errorf("finding folder %s: %w", path, err)
		}
	}
	return t, nil
}

// FindGinkgo returns the program of the tree, which is built if it is not there yet.
func FindGinkgo(ctx context.Context, tree, work string) (string, error) {
	built := filepath.Join(tree, "bin", "tools", "ginkgo")
	if _, err := os.Stat(built); err == nil {
		return filepath.Abs(built)
	}
	built, err := filepath.Abs(filepath.Join(work, "ginkgo"))
	if err != nil {
		return "", fmt.Errorf("finding folder %s: %w", work, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", built, "github.com/onsi/ginkgo/v2/ginkgo")
	build.Dir = filepath.Join(tree, "hack", "tools")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building ginkgo from %s: %w\n%s", build.Dir, err, said)
	}
	return built, nil
}

// HasRaceDetector says whether tests can be compiled with it: it needs cgo.
func HasRaceDetector(ctx context.Context) bool {
	said, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED").Output()
	return err == nil && strings.TrimSpace(string(said)) == "1"
}

// run runs a command and returns all that it has said, which is also kept in a file.
// That it failed is no error: what it said tells why. When ctx ends the command is
// interrupted, and may clean up.
func (t Tree) run(ctx context.Context, dir, work, name string, args ...string) (ok bool, said []byte, err error) {
	path := filepath.Join(work, "output")
	// A file, as nobody has to wait for who else holds it, such as a process that was
	// left behind.
	output, err := os.Create(path) // #nosec G304 -- the folder is ours
	if err != nil {
		return false, nil, fmt.Errorf("running %s: %w", name, err)
	}
	command := exec.CommandContext(ctx, name, args...) // #nosec G204 -- the arguments are ours
	command.Dir, command.Env = dir, t.Env
	command.Stdout, command.Stderr = output, output
	// A group of its own, so that those who started it are not interrupted with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func(s syscall.Signal) error { return syscall.Kill(-command.Process.Pid, s) }
	command.Cancel = func() error { return group(syscall.SIGINT) }
	command.WaitDelay = cleanUp
	err = command.Run()
	if command.Process != nil {
		// What is left of the group now would be left for ever; mostly there is none.
		_ = group(syscall.SIGKILL)
	}
	closed := output.Close()
	var exit *exec.ExitError
	if err != nil && ctx.Err() == nil && !errors.As(err, &exit) {
		return false, nil, fmt.Errorf("running %s: %w", name, err)
	}
	said, readErr := os.ReadFile(path) // #nosec G304 -- the folder is ours
	if readErr = errors.Join(closed, readErr); readErr != nil {
		return false, nil, fmt.Errorf("reading what %s has said: %w", name, readErr)
	}
	return err == nil, said, nil
}

// Tail is the end of a text, of at most so many bytes, from the beginning of a line.
func Tail(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	_, rest, found := strings.Cut(text, "\n")
	if !found {
		rest = text
	}
	return strings.ToValidUTF8(rest, "")
}

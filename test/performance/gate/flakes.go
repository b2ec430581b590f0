package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/trees"
)

const (
	// repeats is how often changed tests are run.
	repeats = 20
	// goTime and ginkgoTime bound the runs of one package. A suite starts a control plane.
	goTime, ginkgoTime = 3 * time.Minute, 8 * time.Minute
)

// checkFlakes repeats the tests in the changed test files of the head.
func checkFlakes(ctx context.Context, _ options, both *trees.Trees) (found []finding, err error) {
	changed, err := both.Changed(ctx, "*_test.go")
	if err != nil {
		return nil, err
	}
	packages := map[string][]string{}
	for _, file := range changed {
		packages[path.Dir(file)] = append(packages[path.Dir(file)], path.Base(file))
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		f := finding{id: "flakes/" + pkg, verdict: same}
		command, limit, err := repetition(both.Head, pkg, packages[pkg])
		switch {
		case err != nil:
			return found, err
		case command == nil:
			f.verdict, f.reason = added, "not repeated here: it needs Docker, or is in a module of its own"
		default:
			progress("flakes: %d runs of the changed tests of %s, within %s", repeats, pkg, limit)
			f.head, f.verdict, f.reason, err = repeat(ctx, both.Head, command, limit)
			if err != nil {
				return found, err
			}
		}
		found = append(found, f)
	}
	return found, nil
}

// harness is the module whose tests need nothing but what make test has built.
const harness = "test/harness"

// repetition is the command that runs the changed tests of a package once.
func repetition(tree, pkg string, files []string) (command []string, limit time.Duration, err error) {
	if strings.HasPrefix(pkg, "test/e2e") || !strings.HasPrefix(pkg, harness+"/") && inOtherModule(tree, pkg) {
		return nil, 0, nil
	}
	if strings.HasPrefix(pkg, "test/integration/") {
		ginkgo, err := filepath.Abs(filepath.Join("bin", "tools", "ginkgo"))
		if err != nil {
			return nil, 0, fmt.Errorf("finding ginkgo: %w", err)
		}
		command = []string{ginkgo, "run", "--no-color", "--procs=6", "--randomize-all", "--timeout=8m"}
		for _, file := range files {
			command = append(command, "--focus-file=/"+regexp.QuoteMeta(file)+"$")
		}
		return append(command, "./"+pkg), ginkgoTime, nil
	}
	tests, err := testsOf(tree, pkg, files)
	if err != nil {
		return nil, 0, err
	}
	if name, found := strings.CutPrefix(pkg, harness+"/"); found {
		return []string{"go", "-C", harness, "test", "-count=1", "-run", tests, "./" + name}, goTime, nil
	}
	return []string{"go", "test", "-count=1", "-run", tests, "./" + pkg}, goTime, nil
}

// inOtherModule reports whether a folder between the root and the package has a go.mod.
func inOtherModule(tree, pkg string) bool {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if _, err := os.Stat(filepath.Join(tree, filepath.FromSlash(pkg), "go.mod")); err == nil {
			return true
		}
	}
	return false
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf is a pattern for the tests in the files. A file without any has helpers, so that
// all tests of the package may have changed.
func testsOf(tree, pkg string, files []string) (string, error) {
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(pkg), file)) // #nosec G304 -- a file that git names
		if err != nil {
			return "", fmt.Errorf("reading a changed test: %w", err)
		}
		functions := testFunction.FindAllSubmatch(text, -1)
		if len(functions) == 0 {
			return ".", nil
		}
		for _, function := range functions {
			names = append(names, string(function[1]))
		}
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}

// repeat runs a command until it fails, has passed often enough or the time is up.
func repeat(ctx context.Context, dir string, args []string,
	limit time.Duration) (head string, v verdict, reason string, err error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for n := range repeats {
		command := exec.CommandContext(bounded, args[0], args[1:]...) // #nosec G204 -- our arguments
		command.Dir = dir
		// A suite stops its control plane when it is interrupted.
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
		command.WaitDelay = time.Minute
		output, err := command.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return "", "", "", ctx.Err()
		case bounded.Err() != nil && n == 0:
			return "", added, fmt.Sprintf("no run ended within %s", limit), nil
		case bounded.Err() != nil:
			return fmt.Sprintf("%d passed within %s", n, limit), same, "", nil
		case errors.As(err, &exit):
			progress("run %d failed:\n%s", n+1, output)
			return fmt.Sprintf("%d passed, then 1 failed", n), isWorse,
				"it does not pass each time: `" + strings.Join(args, " ") + "`", nil
		case err != nil:
			return "", "", "", fmt.Errorf("running %s: %w", args[0], err)
		}
	}
	return fmt.Sprintf("%d passed", repeats), same, "", nil
}

// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// outputTimeout bounds the wait for the output of a command.
	outputTimeout = 30 * time.Second
	// reportTimeout bounds the wait for a line of the program. The S3 server is down for a minute.
	reportTimeout = 2 * time.Minute
)

// fence matches blocks of a document without a language.
var fence = regexp.MustCompile("(?s)\n```\n(.*?)\n```\n")

func blocks(t *testing.T, document string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range fence.FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	return found
}

// command is a line after "$ " and its output.
type command struct{ line, output string }

func commands(block string) []command {
	var found []command
	for line := range strings.Lines(block) {
		if rest, ok := strings.CutPrefix(line, "$ "); ok {
			found = append(found, command{line: strings.TrimSpace(rest)})
		} else if len(found) > 0 {
			found[len(found)-1].output += line
		}
	}
	return found
}

// variable has the parts of an output that differ between runs, and their replacements.
var variable = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`(?m)^ *\d+\.\d s `), "<time>"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s( ago)?\b|\b\d+m\b`), "<age>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:<port>"},
	{regexp.MustCompile(`\bprocess \d+`), "process <number>"},
	{regexp.MustCompile(`\bin \S*controlplane-\d+`), "in <folder>"},
	{regexp.MustCompile(`\bviewer-handbook-[a-z0-9]+-[a-z0-9]{5}\b`), "<pod>"},
	{regexp.MustCompile(`\bleasehold-controller-manager-\d\b`), "<replica>"},
	{regexp.MustCompile(`(?m)[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

// normalLines returns the lines of an output with the parts that differ between runs replaced.
func normalLines(text string) []string {
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.as)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// shows returns an error unless the output matches the documented one, in which "..." stands for
// any number of lines.
func shows(documented, output string) error {
	want, got := normalLines(documented), normalLines(output)
	if !matches(want, got) {
		return fmt.Errorf("the document shows\n  %s\nand the program prints\n  %s", strings.Join(want, "\n  "),
			strings.Join(got, "\n  "))
	}
	return nil
}

func matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == "...":
		return matches(want[1:], got) || len(got) > 0 && matches(want, got[1:])
	default:
		return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
	}
}

func TestShows(t *testing.T) {
	const documented = "NAME   AGE\na      18s\n...\nz      1m2s\n"
	for output, want := range map[string]bool{
		"NAME  AGE\na  5s\nz  6m\n":          true,
		"NAME  AGE\na  5s\nb  1s\nz  6m1s\n": true,
		"NAME  AGE\nb  5s\nz  6m\n":          false,
		"NAME  AGE\na  5s\n":                 false,
		"NAME  AGE\na  5s\nz  6m\ny  1s\n":   false,
		"":                                   false,
	} {
		if err := shows(documented, output); (err == nil) != want {
			t.Errorf("%q: %v, want it shown: %t", output, err, want)
		}
	}
	for documented, output := range map[string]string{
		"33 objects":                         "34 objects",
		"Ready=True (Reconciled)":            "Ready=True (Progressing)",
		"at http://127.0.0.1:1/a":            "at http://127.0.0.1:1/b",
		"1 of 3 probes in a row failed":      "2 of 3 probes in a row failed",
		"   4.2 s  leader   <replica> leads": "   4.2 s  leader   none: the Lease is released",
	} {
		if shows(documented, output) == nil {
			t.Errorf("%q passes for %q", output, documented)
		}
	}
}

// liveRun is the program of `make run`.
type liveRun struct {
	cmd   *exec.Cmd
	ended chan struct{}
	env   []string // of the document's commands

	mu  sync.Mutex
	out bytes.Buffer
}

// Write implements io.Writer.
func (r *liveRun) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *liveRun) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// startRun starts the program of `make run` and returns when it has printed its suggestions.
func startRun(t *testing.T) *liveRun {
	t.Helper()
	program := filepath.Join(t.TempDir(), "run")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../hack/run")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building hack/run: %v\n%s", err, out)
	}
	r := &liveRun{cmd: exec.Command(program, "-workdir", t.TempDir()), ended: make(chan struct{})}
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = root, r, r
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var end error
	go func() {
		end = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(os.Interrupt) // it may have ended already
		<-r.ended
		if end != nil {
			t.Errorf("make run ends with %v:\n%s", end, r.output())
		}
	})
	r.await(t, "its last line", reportTimeout, func() error {
		if !strings.Contains(r.output(), "Ctrl-C stops everything and leaves nothing behind.") {
			return errors.New(r.output())
		}
		return nil
	})
	kubectl := regexp.MustCompile(`(?m)^  (\S+/kubectl) --kubeconfig (\S+) `).FindStringSubmatch(r.output())
	if kubectl == nil {
		t.Fatalf("make run prints no kubectl command line:\n%s", r.output())
	}
	r.env = append(os.Environ(), "KUBECONFIG="+kubectl[2], "PATH="+filepath.Dir(kubectl[1])+":"+os.Getenv("PATH"),
		"MAKEFLAGS=", "MAKELEVEL=")
	return r
}

// await polls until check returns nil.
func (r *liveRun) await(t *testing.T, what string, timeout time.Duration, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, timeout, true,
		func(context.Context) (bool, error) {
			select {
			case <-r.ended:
				return false, fmt.Errorf("make run has ended:\n%s", r.output())
			default:
			}
			last = check()
			return last == nil, nil
		})
	if err != nil {
		t.Errorf("waiting for %s: %v\n%v", what, err, last)
	}
}

// bash runs a line of a document as the cluster's administrator, with k for kubectl.
func (r *liveRun) bash(t *testing.T, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", `k() { kubectl "$@"; }; `+line)
	cmd.Dir, cmd.Env = root, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// reports waits until the program has printed each line of a documented block, in any order,
// because controllers run concurrently.
func (r *liveRun) reports(t *testing.T, block string) {
	t.Helper()
	wanted := normalLines(block)
	r.await(t, "all documented lines", reportTimeout, func() error {
		printed := normalLines(r.output())
		missing := slices.DeleteFunc(slices.Clone(wanted), func(line string) bool { return slices.Contains(printed, line) })
		if len(missing) > 0 {
			return fmt.Errorf("the document shows\n  %s\nwhich is not in\n  %s", strings.Join(missing, "\n  "),
				strings.Join(printed, "\n  "))
		}
		return nil
	})
}

// reads reports whether a kubectl command changes nothing, and so can be repeated.
func (c command) reads() bool { return strings.HasPrefix(c.line, "k get ") }

// execute runs the command and compares its output. It retries reads, because a controller may not
// have written an object yet.
func (c command) execute(t *testing.T, r *liveRun) {
	t.Helper()
	if !c.reads() {
		out, _ := r.bash(t, c.line) // the document also shows refused commands
		if err := shows(c.output, out); err != nil {
			t.Errorf("$ %s: %v", c.line, err)
		}
		return
	}
	r.await(t, "$ "+c.line, outputTimeout, func() error {
		out, err := r.bash(t, c.line)
		return errors.Join(err, shows(c.output, out))
	})
}

// TestSlowTour runs the tour as documented, and then the commands of docs/operations.md that need no
// Pods of the operator.
func TestSlowTour(t *testing.T) {
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		t.Skip("needs a cluster of its own")
	}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		if _, err := os.Stat(filepath.Join(assets, "kube-controller-manager")); err != nil {
			t.Skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS does not have; unset it and run `make controlplane`")
		}
	}
	tour := blocks(t, "docs/tour.md")
	if len(tour) != 3 {
		t.Fatalf("docs/tour.md has %d blocks, want the output, the commands and their output", len(tour))
	}
	r := startRun(t)
	r.reports(t, tour[0])
	listed := commands(tour[1])
	if len(listed) < 5 {
		t.Fatalf("docs/tour.md has %d commands", len(listed))
	}
	for _, c := range listed {
		c.execute(t, r)
	}
	// Step "Kill the S3 server".
	server := regexp.MustCompile(`an S3 server outside the cluster answers at \S+ as process (\d+)`).FindStringSubmatch(r.output())
	if out, err := r.bash(t, "kill -9 "+server[1]); err != nil {
		t.Fatalf("killing the S3 server: %v\n%s", err, out)
	}
	r.reports(t, tour[2])
	// Step "Kill the leader's process": another replica takes over.
	leaders := regexp.MustCompile(`leader +(\S+) leads`)
	leader := leaders.FindStringSubmatch(r.output())[1]
	pid := regexp.MustCompile(`operator +` + leader + ` runs as process (\d+)`).FindStringSubmatch(r.output())[1]
	if out, err := r.bash(t, "kill -9 "+pid); err != nil {
		t.Fatalf("killing the leader: %v\n%s", err, out)
	}
	r.await(t, "another leader", outputTimeout, func() error {
		all := leaders.FindAllStringSubmatch(r.output(), -1)
		if last := all[len(all)-1][1]; last == leader {
			return fmt.Errorf("%s leads", last)
		}
		return nil
	})
	again := "operator +" + leader + ` runs again as process \d+`
	r.await(t, "the killed replica again", outputTimeout, func() error {
		if !regexp.MustCompile(again).MatchString(r.output()) {
			return fmt.Errorf("no line matches %q", again)
		}
		return nil
	})
	operate(t, r)
}

// The README's quick start shows a part of the tour, so the test of the tour covers it.
func TestQuickStartIsPartOfTheTour(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Quick start\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tour := strings.Split(strings.Join(blocks(t, "docs/tour.md"), "\n"), "\n")
	found := fence.FindAllStringSubmatch(section, -1)
	if len(found) != 4 {
		t.Fatalf("the quick start has %d blocks, want 4: commands, output, a transcript, setup-envtest", len(found))
	}
	for _, block := range found[1:3] {
		for line := range strings.SplitSeq(block[1], "\n") {
			if !slices.Contains(tour, line) {
				t.Errorf("docs/tour.md has no line %q", line)
			}
		}
	}
}

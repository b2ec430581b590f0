// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// How long to wait for the output of a command, and for a line of the program: the S3 server is down for a minute.
const outputTimeout, reportTimeout = 30 * time.Second, 2 * time.Minute

// fence matches blocks of a document without a language.
var fence = regexp.MustCompile("(?s)\n```\n(.*?)\n```\n")

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
	{regexp.MustCompile(`\s*\n\s*`), "\n"},
}

// normalLines returns the lines of an output with the parts that differ between runs replaced.
func normalLines(text string) []string {
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.as)
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

// shows returns an error unless the output matches the documented one, in which "..." stands for any number of lines.
func shows(documented, output string) error {
	if want, got := normalLines(documented), normalLines(output); !matches(want, got) {
		return fmt.Errorf("the document shows\n%q\nand the program prints\n%q", want, got)
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

// liveRun is the program of `make run`.
type liveRun struct {
	cmd   *exec.Cmd
	ended chan struct{}
	env   []string // of the document's commands
	log   string   // the file with its output
}

func (r *liveRun) output() string {
	printed, _ := os.ReadFile(r.log) // what is missing fails the test that waits for it
	return string(printed)
}

// startRun starts the program of `make run` and returns when it has printed its suggestions.
func startRun(t *testing.T) *liveRun {
	t.Helper()
	dir := t.TempDir()
	program, log := filepath.Join(dir, "run"), filepath.Join(dir, "log")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../hack/run")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building hack/run: %v\n%s", err, out)
	}
	cmd := exec.Command("bash", "-c", `exec "$0" -workdir "$1" >"$2" 2>&1`, program, t.TempDir(), log)
	r := &liveRun{cmd: cmd, ended: make(chan struct{}), log: log}
	cmd.Dir = root
	if err := cmd.Start(); err != nil {
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
		if !strings.Contains(r.output(), "Press Ctrl-C to stop everything. Nothing is left behind.") {
			return errors.New(r.output())
		}
		return nil
	})
	kubectl := regexp.MustCompile(`(?m)^  (\S+/kubectl) --kubeconfig (\S+) `).FindStringSubmatch(r.output())
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
		t.Fatalf("waiting for %s: %v\n%v", what, err, last)
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

// reports waits until the program has printed each line of a block, in any order: controllers run concurrently.
func (r *liveRun) reports(t *testing.T, block string) {
	t.Helper()
	wanted := normalLines(block)
	r.await(t, "all documented lines", reportTimeout, func() error {
		printed := normalLines(r.output())
		for _, line := range wanted {
			if !slices.Contains(printed, line) {
				return fmt.Errorf("the document shows %q, which is not in\n%q", line, printed)
			}
		}
		return nil
	})
}

// execute runs the command and compares its output. It retries reads: a controller may not have written an object yet.
func (c command) execute(t *testing.T, r *liveRun) {
	t.Helper()
	if !strings.HasPrefix(c.line, "k get ") {
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

// TestSlowTour runs the tour as documented, and then commands of docs/operations.md that need no Pods of the operator.
func TestSlowTour(t *testing.T) {
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		t.Skip("needs a cluster of its own")
	}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		if _, err := os.Stat(filepath.Join(assets, "kube-controller-manager")); err != nil {
			t.Skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS does not have; unset it and run `make controlplane`")
		}
	}
	tour := fence.FindAllStringSubmatch(text(t, "docs/tour.md"), -1)
	if len(tour) != 3 {
		t.Fatalf("docs/tour.md has %d blocks, want the output, the commands and their output", len(tour))
	}
	r := startRun(t)
	r.reports(t, tour[0][1])
	for _, c := range commands(tour[1][1]) {
		c.execute(t, r)
	}
	// Step "Kill the S3 server".
	server := regexp.MustCompile(`an S3 server outside the cluster listens at \S+, process (\d+)`).FindStringSubmatch(r.output())
	if out, err := r.bash(t, "kill -9 "+server[1]); err != nil {
		t.Fatalf("killing the S3 server: %v\n%s", err, out)
	}
	r.reports(t, tour[2][1])
	// Step "Kill the leader's process": another replica takes over.
	leaders := regexp.MustCompile(`leader +(\S+) is the leader`)
	leader := leaders.FindStringSubmatch(r.output())[1]
	pid := regexp.MustCompile(`operator +` + leader + ` runs as process (\d+)`).FindStringSubmatch(r.output())[1]
	if out, err := r.bash(t, "kill -9 "+pid); err != nil {
		t.Fatalf("killing the leader: %v\n%s", err, out)
	}
	again := regexp.MustCompile("operator +" + leader + ` runs again as process \d+`)
	r.await(t, "another leader, and the killed replica again", outputTimeout, func() error {
		all := leaders.FindAllStringSubmatch(r.output(), -1)
		if last := all[len(all)-1][1]; last == leader || !again.MatchString(r.output()) {
			return fmt.Errorf("%s leads:\n%s", last, r.output())
		}
		return nil
	})
	operate(t, r)
}

// atTheEnd are lines of docs/operations.md that run at the end of the tour, in this order.
var atTheEnd = []string{
	"kubectl apply -k config/grafana     # a ConfigMap for Grafana's sidecar; elsewhere import config/grafana/leasehold.json (Grafana 10 or later)",
	`kubectl patch validatingadmissionpolicybinding leasehold-fence.leasehold.dev --type=merge -p '{"spec":{"validationActions":["Audit"]}}'`,
	"kubectl delete tenants --all                           # deletes or retains their namespaces, by the policy of each",
	"kubectl delete storagebuckets --all --all-namespaces   # deletes or retains managed buckets",
	"make undeploy",
}

// operate runs the commands for operators. The last ones uninstall the operator while its processes run.
func operate(t *testing.T, r *liveRun) {
	t.Helper()
	page := text(t, "docs/operations.md")
	for _, line := range atTheEnd {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("docs/operations.md has no line %q", line)
		}
		if out, err := r.bash(t, line); err != nil {
			t.Errorf("$ %s: %v\n%s", line, err, out)
		}
	}
	if out, err := r.bash(t, "kubectl get customresourcedefinitions -o name"); err != nil || out != "" {
		t.Errorf("make undeploy leaves %s (%v)", out, err)
	}
}

// The README's quick start shows a part of the tour, so the test of the tour covers it.
func TestQuickStartIsPartOfTheTour(t *testing.T) {
	_, section, _ := strings.Cut(text(t, "README.md"), "\n## Quick start\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tour := strings.Split(text(t, "docs/tour.md"), "\n")
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

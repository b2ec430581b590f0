package controlplane

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakeGo is a `go` that notes each build in $BUILDS and the output folder of that time in
// $BUILDS.visible, and writes a small file where a binary would go, or fails when $BREAK
// names the binary.
const fakeGo = `#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; fi
  shift
done
name=$(basename "$out")
echo "$name" >> "$BUILDS"
if [ "$name" = "$BREAK" ]; then echo "broken on purpose" >&2; exit 1; fi
ls "$(dirname "$(dirname "$out")")" >> "$BUILDS.visible"
echo binary > "$out"
`

// run builds what is embedded.
func run(ctx context.Context, out, goCmd string, log io.Writer) error {
	_, err := Build(ctx, Options{Out: out, Go: goCmd, Log: log})
	return err
}

// setup returns an output folder, the fake go command and a reader of what it built.
func setup(t *testing.T) (out, goCmd string, built func() []string) {
	t.Helper()
	dir := t.TempDir()
	goCmd = filepath.Join(dir, "go")
	if err := os.WriteFile(goCmd, []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BUILDS", filepath.Join(dir, "builds"))
	return filepath.Join(dir, "out"), goCmd, func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "builds"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
}

func TestSecondRunBuildsNothing(t *testing.T) {
	out, goCmd, built := setup(t)
	for range 2 {
		if err := run(t.Context(), out, goCmd, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := len(built()), len(programs); got != want {
		t.Errorf("two runs built %d programs, want %d: %v", got, want, built())
	}
	for _, prog := range programs {
		if _, err := os.Stat(filepath.Join(out, currentLink, prog.name)); err != nil {
			t.Errorf("%s is not there: %v", prog.name, err)
		}
	}
}

// The folder of a version appears with all its programs: tests start each that they find.
func TestFolderAppearsComplete(t *testing.T) {
	out, goCmd, _ := setup(t)
	if err := run(t.Context(), out, goCmd, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	visible, err := os.ReadFile(os.Getenv("BUILDS") + ".visible")
	if err != nil || len(visible) > 0 {
		t.Errorf("saw %q during the build (%v), want no folder yet", visible, err)
	}
}

func TestRunsAtTheSameTimeBuildOnce(t *testing.T) {
	out, goCmd, built := setup(t)
	// The lock is held while the runs start, so that all of them have to wait.
	var holder bytes.Buffer
	unlock, err := Lock(t.Context(), out, "controlplane", &holder)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	logs := make([]announced, 3)
	errs := make([]error, len(logs))
	for i := range logs {
		logs[i].said = make(chan struct{})
		all.Go(func() { errs[i] = run(t.Context(), out, goCmd, &logs[i]) })
	}
	for i := range logs {
		<-logs[i].said
	}
	unlock()
	all.Wait()
	for i := range logs {
		if errs[i] != nil {
			t.Errorf("run %d: %v", i, errs[i])
		}
		if !strings.Contains(logs[i].String(), "waiting for it") {
			t.Errorf("run %d did not say that it waits:\n%s", i, logs[i].String())
		}
	}
	if got, want := len(built()), len(programs); got != want {
		t.Errorf("three runs built %d programs, want %d: %v", got, want, built())
	}
}

// announced is a log that closes a channel after its first line.
type announced struct {
	bytes.Buffer
	once sync.Once
	said chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	defer a.once.Do(func() { close(a.said) })
	return a.Buffer.Write(p)
}

func TestFailedBuildLeavesNothingHalfDone(t *testing.T) {
	out, goCmd, built := setup(t)
	t.Setenv("BREAK", "kubectl")
	err := run(t.Context(), out, goCmd, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "building kubectl") ||
		!strings.Contains(err.Error(), "broken on purpose") {
		t.Fatalf("error %v does not say what failed and how", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(out, "*", "*"))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("left over: %v (%v)", leftovers, err)
	}
	t.Setenv("BREAK", "")
	before := len(built())
	if err := run(t.Context(), out, goCmd, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if got := len(built()) - before; got != len(programs) {
		t.Errorf("the run after a failure built %d programs, want %d", got, len(programs))
	}
}

// Another version is built beside the first one, which stays current.
func TestOtherVersion(t *testing.T) {
	out, goCmd, built := setup(t)
	other := Pins{Mod: []byte("require k8s.io/kubernetes v1.31.0\n"), Sum: []byte("sums\n")}
	for range 2 {
		if err := run(t.Context(), out, goCmd, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		o := Options{Out: out, Go: goCmd, Pins: other, Link: "1.31", Log: &bytes.Buffer{}}
		if _, err := Build(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := len(built()), 2*len(programs); got != want {
		t.Errorf("built %d programs, want %d: %v", got, want, built())
	}
	for link, prefix := range map[string]string{currentLink: "v1.3", "1.31": "v1.31.0-"} {
		if target, err := os.Readlink(filepath.Join(out, link)); err != nil || !strings.HasPrefix(target, prefix) {
			t.Errorf("%s points at %q (%v), want %s", link, target, err, prefix)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// fakeGo is a `go` that notes each program in $BUILDS and the output folder of that time in
// $BUILDS.visible, and writes a small file where a binary would go, or fails when $BREAK
// names the binary.
const fakeGo = `#!/bin/sh
while [ "$1" != -o ]; do shift; done
out=$2
shift 2
for package; do
  name=$(basename "${package%/v[0-9]}")
  echo "$name" >> "$BUILDS"
  if [ "$name" = "$BREAK" ]; then echo "broken on purpose" >&2; exit 1; fi
  ls "$(dirname "$out")" >> "$BUILDS.visible"
  echo binary > "$out/$name"
done
`

// setup returns options with a new folder and the fake go command, and a function that returns what was built.
func setup(t *testing.T) (o Options, built func() []string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	o = Options{Out: filepath.Join(dir, "out"), Go: filepath.Join(dir, "go"), Log: io.Discard}
	g.Expect(os.WriteFile(o.Go, []byte(fakeGo), 0o755)).To(Succeed())
	t.Setenv("BUILDS", filepath.Join(dir, "builds"))
	return o, func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "builds"))
		g.Expect(err).To(Or(Not(HaveOccurred()), MatchError(os.ErrNotExist)))
		return strings.Fields(string(text))
	}
}

func TestSecondRunBuildsNothing(t *testing.T) {
	g := NewWithT(t)
	o, built := setup(t)
	for range 2 {
		g.Expect(Build(t.Context(), o)).Error().NotTo(HaveOccurred())
	}
	g.Expect(built()).To(HaveLen(len(programs)))
	for _, prog := range programs {
		g.Expect(filepath.Join(o.Out, currentLink, prog.name)).To(BeARegularFile())
	}
	// Tests start each program that they find.
	g.Expect(os.ReadFile(os.Getenv("BUILDS")+".visible")).To(BeEmpty(), "no folder during the build")
}

func TestRunsAtTheSameTimeBuildOnce(t *testing.T) {
	g := NewWithT(t)
	o, built := setup(t)
	// The lock is held while the runs start, so that all of them have to wait.
	unlock, err := lock(t.Context(), o.Out, "controlplane", io.Discard)
	g.Expect(err).NotTo(HaveOccurred())
	var all sync.WaitGroup
	logs := make([]announced, 3)
	errs := make([]error, len(logs))
	for i := range logs {
		logs[i].begun = make(chan struct{})
		all.Go(func() {
			o := o
			o.Log = &logs[i]
			_, errs[i] = Build(t.Context(), o)
		})
	}
	for i := range logs {
		<-logs[i].begun
	}
	unlock()
	all.Wait()
	for i := range logs {
		g.Expect(errs[i]).NotTo(HaveOccurred())
		g.Expect(logs[i].String()).To(ContainSubstring("waiting for it"))
	}
	g.Expect(built()).To(HaveLen(len(programs)))
}

// announced is a log that closes a channel after its first line.
type announced struct {
	bytes.Buffer
	once  sync.Once
	begun chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	defer a.once.Do(func() { close(a.begun) })
	return a.Buffer.Write(p)
}

func TestFailedBuildLeavesNothingHalfDone(t *testing.T) {
	g := NewWithT(t)
	o, built := setup(t)
	t.Setenv("BREAK", "kubectl")
	_, err := Build(t.Context(), o)
	g.Expect(err).To(MatchError(And(ContainSubstring("building the control plane"), ContainSubstring("broken on purpose"))))
	g.Expect(filepath.Glob(filepath.Join(o.Out, "*", "*"))).To(BeEmpty())
	t.Setenv("BREAK", "")
	before := len(built())
	g.Expect(Build(t.Context(), o)).Error().NotTo(HaveOccurred())
	g.Expect(len(built()) - before).To(Equal(len(programs)))
}

// Another version is built beside the first one, which stays current.
func TestOtherVersion(t *testing.T) {
	g := NewWithT(t)
	o, built := setup(t)
	beside := o
	beside.Pins, beside.Link = Pins{Mod: []byte("require k8s.io/kubernetes v1.31.0\n"), Sum: []byte("sums\n")}, "1.31"
	for range 2 {
		g.Expect(Build(t.Context(), o)).Error().NotTo(HaveOccurred())
		g.Expect(Build(t.Context(), beside)).Error().NotTo(HaveOccurred())
	}
	g.Expect(built()).To(HaveLen(2 * len(programs)))
	for link, prefix := range map[string]string{currentLink: "v1.3", "1.31": "v1.31.0-"} {
		g.Expect(os.Readlink(filepath.Join(o.Out, link))).To(HavePrefix(prefix), link)
	}
}

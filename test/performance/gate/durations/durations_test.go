package durations_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/durations"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/row/rowtest"
)

// waits is a package whose function is as slow as it is made; once is the name of a
// file that a test is slow without.
const (
	waits = `package waits

import "time"

// Wait waits.
func Wait() { time.Sleep(0 * time.Second) }
`
	test = `package user

import (
	"os"
	"testing"
	"time"

	"m/waits"
)

func TestWaits(t *testing.T) { waits.Wait() }

func TestSlowOnce(t *testing.T) {
	if _, err := os.Stat("warm"); err != nil && HEAD {
		_ = os.WriteFile("warm", nil, 0o600)
		time.Sleep(1500 * time.Millisecond)
	}
}

func TestFails(t *testing.T) { t.FailNow() }
`
	idle = "package idle\n\nimport \"testing\"\n\nfunc TestIdle(t *testing.T) { t.Fatal(\"ran though nothing it needs is different\") }\n"
)

func tree(t *testing.T, wait, head string) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for path, text := range map[string]string{
		"go.mod": "module m\n", "main.go": "package main\n\nfunc main() {}\n", "README.md": wait,
		"waits/waits.go":    strings.Replace(waits, "0 * time.Second", wait, 1),
		"user/user_test.go": strings.Replace(test, "HEAD", head, 1),
		"idle/idle_test.go": idle,
	} {
		path = filepath.Join(dir, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	return dir
}

func check(t *testing.T, base, head string) map[string]row.Row {
	t.Helper()
	return rowtest.Check(t, durations.Check, base, head)
}

func TestATestThatBecameMuchSlowerIsFound(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rows := check(t, tree(t, "0 * time.Second", "false"), tree(t, "1200 * time.Millisecond", "true"))
	g.Expect(rows["durations/user/TestWaits"].Verdict).To(Equal(row.Worse))
	g.Expect(rows["durations/user/TestWaits"].Reason).To(ContainSubstring("go test -v -count=1 -run '^TestWaits$' ./user"))
	g.Expect(rows["durations/user/TestSlowOnce"].Verdict).To(Equal(row.Same), "it is as fast as before when it runs alone")
	g.Expect(rows["durations/user/TestFails"].Verdict).To(Equal(row.Unclear))
	g.Expect(rows).NotTo(HaveKey("durations/idle"))
	g.Expect(rows["durations/packages"].Head).To(Equal("1 of 1 compared"))
}

func TestNothingIsRunWhenNothingIsDifferent(t *testing.T) {
	t.Parallel()
	same := tree(t, "time.Hour", "true")
	NewWithT(t).Expect(check(t, same, same)).To(Equal(map[string]row.Row{
		"durations/packages": {ID: "durations/packages", Head: "0 of 0 compared", Verdict: row.Same},
	}))
}

func TestWhatThereIsNoTimeForIsNamed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rows := check(t, tree(t, "0 * time.Second", "false"), tree(t, "time.Hour", "true"))
	g.Expect(rows["durations/packages"].Verdict).To(Equal(row.New))
	g.Expect(rows["durations/packages"].Reason).To(ContainSubstring("were not enough for user"))
}

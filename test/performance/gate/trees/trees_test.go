package trees_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/trees"
)

// repository is a git repository of a test's own.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t: t, dir: t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	r.commit("first")
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	command := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
	command.Dir = r.dir
	out, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit changes go.mod and returns the commit.
func (r repository) commit(message string) string {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "go.mod"), []byte("// "+message+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", message)
	return r.git("rev-parse", "HEAD")
}

func read(g Gomega, dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	g.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func TestTheHeadIsTheFolderAsItIs(t *testing.T) {
	g, r := NewWithT(t), newRepository(t)
	base, head := r.git("rev-parse", "HEAD"), r.commit("second")
	g.Expect(os.WriteFile(filepath.Join(r.dir, "go.mod"), []byte("changed"), 0o600)).To(Succeed())

	both, err := trees.Open(t.Context(), r.dir, "HEAD~1", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(both.Head).To(Equal(r.dir))
	g.Expect(read(g, both.Head)).To(Equal("changed"))
	g.Expect(read(g, both.Base)).To(Equal("// first\n"))
	g.Expect([]string{both.BaseCommit, both.HeadCommit}).To(Equal([]string{base, head}))

	g.Expect(both.Close(t.Context())).To(Succeed())
	g.Expect(both.Base).NotTo(BeADirectory())
	g.Expect(filepath.Dir(both.Base)).NotTo(BeADirectory())
	g.Expect(r.git("worktree", "list")).NotTo(ContainSubstring("\n"), "only the repository itself is left")
	g.Expect(read(g, r.dir)).To(Equal("changed"))
	g.Expect(both.Close(t.Context())).To(Succeed(), "again")
}

func TestTheHeadMayBeACommit(t *testing.T) {
	g, r := NewWithT(t), newRepository(t)
	r.commit("second")
	r.commit("third")
	both, err := trees.Open(t.Context(), r.dir, "HEAD~2", "HEAD~1")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(both.Close(t.Context())).To(Succeed()) }()
	g.Expect(read(g, both.Head)).To(Equal("// second\n"))
	g.Expect(read(g, both.Base)).To(Equal("// first\n"))
}

func TestTheBaseIsWhereTheHeadLeftIt(t *testing.T) {
	g, r := NewWithT(t), newRepository(t)
	r.git("checkout", "--quiet", "-b", "change")
	r.commit("the change")
	r.git("checkout", "--quiet", "main")
	r.commit("what came later")
	r.git("checkout", "--quiet", "change")
	both, err := trees.Open(t.Context(), r.dir, "main", "")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(both.Close(t.Context())).To(Succeed()) }()
	g.Expect(read(g, both.Base)).To(Equal("// first\n"))
}

func TestWhatIsNoCommitSaysWhatToName(t *testing.T) {
	g, r := NewWithT(t), newRepository(t)
	for _, base := range []string{"", "nothing", "--help"} {
		_, err := trees.Open(t.Context(), r.dir, base, "")
		g.Expect(err).To(MatchError(ContainSubstring("make gate BASE=origin/main")), base)
	}
	_, err := trees.Open(t.Context(), r.dir, "HEAD", "nothing")
	g.Expect(err).To(MatchError(ContainSubstring("neither a folder")))
	g.Expect(r.git("worktree", "list")).NotTo(ContainSubstring("\n"))
}

func TestTrailersAreThoseOfTheHeadsOwnCommits(t *testing.T) {
	g, r := NewWithT(t), newRepository(t)
	r.commit("before\n\nGate-Allow: old: gone by\n")
	base := r.git("rev-parse", "HEAD")
	r.commit("one\n\nGate-Allow: counts/a b: it is\n  long\nSigned-off-by: n\nGate-Allow: times: slow\n")
	r.commit("two, Gate-Allow: not a trailer\n\nSaid in a text: no.\n")
	r.commit("three\n\ngate-allow: allocations: more\n")
	both, err := trees.Open(t.Context(), r.dir, base, "")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(both.Close(t.Context())).To(Succeed()) }()
	g.Expect(both.Trailers(t.Context(), "Gate-Allow")).
		To(Equal([]string{"counts/a b: it is long", "times: slow", "allocations: more"}))
}

func TestChangedIsWhatDiffersFromTheBase(t *testing.T) {
	g, r := NewWithT(t), newRepository(t)
	write := func(name string) {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(r.dir, name), []byte(r.git("rev-parse", "HEAD")), 0o600)).To(Succeed())
	}
	for _, name := range []string{"same_test.go", "changed_test.go", "deleted_test.go"} {
		write(name)
	}
	base := r.commit("with tests")
	write("changed_test.go")
	write("p/committed_test.go")
	g.Expect(os.Remove(filepath.Join(r.dir, "deleted_test.go"))).To(Succeed())
	r.commit("changed")
	write("p/untracked_test.go")
	write("p/other.go")
	both, err := trees.Open(t.Context(), r.dir, base, "")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(both.Close(t.Context())).To(Succeed()) }()
	g.Expect(both.Changed(t.Context(), "*_test.go")).
		To(ConsistOf("changed_test.go", "p/committed_test.go", "p/untracked_test.go"))
}

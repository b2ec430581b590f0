package flakes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/flakes"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/row/rowtest"
)

// files are those of a tree by path.
type files map[string]string

// tree writes them into a folder.
func (f files) tree(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for path, text := range f {
		path = filepath.Join(dir, filepath.FromSlash(path))
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	return dir
}

const (
	plain = `package p

import "testing"

// helper is a helper.
func helper() int { return 1 }

func deeper() int { return helper() }

func TestOne(t *testing.T) { t.Log(deeper()) }

func TestTwo(t *testing.T) { t.Log(2) }

func BenchmarkOne(b *testing.B) {}
`
	specs = `package s

import (
	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("A", func() {
	n := 1
	It("does", func() { use(n) })
	When("b", func() {
		It("does not", func() {
			stop()
		})
	})
})

var _ = Describe("C", func() {
	It("rests", func() {})
})

func use(int) {}
`
	suite = `package s

import "testing"

func TestS(t *testing.T) { RunSpecs(t, "s") }
`
)

func TestChanged(t *testing.T) {
	t.Parallel()
	base := files{"go.mod": "module m\n", "p/p_test.go": plain, "s/s_test.go": specs, "s/suite_test.go": suite, "other/go.mod": "module o\n", "other/o_test.go": plain}
	for name, test := range map[string]struct {
		path, from, to string
		want           []string
	}{
		"nothing":                     {"p/p_test.go", "", "", nil},
		"a comment and a line":        {"p/p_test.go", "// helper is a helper.", "// helper is another.\n", nil},
		"a test":                      {"p/p_test.go", "t.Log(2)", "t.Log(3)", []string{"p TestTwo "}},
		"a test more":                 {"p/p_test.go", "func TestTwo", "func TestThree(*testing.T) {}\n\nfunc TestTwo", []string{"p TestThree "}},
		"what a test uses indirectly": {"p/p_test.go", "return 1", "return 2", []string{"p TestOne "}},
		"a benchmark":                 {"p/p_test.go", "(b *testing.B) {}", "(b *testing.B) { b.Loop() }", nil},
		"a TestMain more, which runs all": {"p/p_test.go", "func BenchmarkOne", "func TestMain(m *testing.M) { m.Run() }\n\nfunc BenchmarkOne",
			nil},
		"a spec":                        {"s/s_test.go", "stop()", "stop(1)", []string{"s A b does not s_test.go:11-14"}},
		"a text, so that it is another": {"s/s_test.go", `"does"`, `"acts"`, []string{"s A acts s_test.go:9-10"}},
		"what is around the specs":      {"s/s_test.go", "n := 1", "n := 2", []string{"s A does s_test.go:9-10", "s A b does not s_test.go:11-14"}},
		"what specs use":                {"s/s_test.go", "use(int) {}", "use(int) { panic(1) }", []string{"s A does s_test.go:9-10"}},
		"what runs all specs":           {"s/suite_test.go", `"s")`, `"t")`, []string{"s A does s_test.go:9-10", "s A b does not s_test.go:11-14", "s C rests s_test.go:18-19"}},
		"what is of another module":     {"other/o_test.go", "t.Log(2)", "t.Log(3)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			before, after := base.tree(t), base.tree(t)
			path := filepath.Join(after, filepath.FromSlash(test.path))
			text, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(text)).To(ContainSubstring(test.from))
			g.Expect(os.WriteFile(path, []byte(strings.Replace(string(text), test.from, test.to, 1)), 0o600)).To(Succeed())

			found, err := flakes.Changed(before, after)
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for _, s := range found {
				got = append(got, s.Package+" "+s.Name+" "+s.Focus)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changed specs (-want +got):\n%s", diff)
			}
		})
	}
}

// unsteady passes three times in one process, and fails then.
const unsteady = `package p

import (
	"testing"
	"time"
)

var runs int

func TestOne(t *testing.T) {
	if runs++; runs > 3 {
		t.Fatal("ran once too often")
	}
}

func TestTwo(t *testing.T) { t.Log("two") }

func TestSlow(t *testing.T) { time.Sleep(time.Hour) }

func TestElsewhere(t *testing.T) { t.Skip("asks for more than there is") }
`

func check(t *testing.T, base, head files) map[string]row.Row {
	t.Helper()
	return rowtest.Check(t, flakes.Check, base.tree(t), head.tree(t))
}

func TestATestThatDoesNotAlwaysPassIsFound(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	head := strings.Replace(unsteady, "time.Sleep(time.Hour)", "_ = time.Hour", 1)
	rows := check(t, files{"go.mod": "module m\n"}, files{
		"go.mod": "module m\n", "p/p_test.go": head,
		"test/e2e/e_test.go": "package e\n\nimport \"testing\"\n\nfunc TestE(t *testing.T) { t.Fatal() }\n",
		"broken/b_test.go":   "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { nothing() }\n",
	})
	g.Expect(rows["flakes/p/TestOne"].Verdict).To(Equal(row.Worse))
	g.Expect(rows["flakes/p/TestOne"].Head).To(Equal("failed in run 4 of 20"))
	g.Expect(rows["flakes/p/TestOne"].Reason).To(And(ContainSubstring("ran once too often"), ContainSubstring("go test -count=20"), ContainSubstring("'-run=^(TestOne)$' ./p")))
	g.Expect(rows["flakes/p/TestTwo"]).To(Equal(row.Row{ID: "flakes/p/TestTwo", Head: "20 of 20 passed", Verdict: row.Same}))
	g.Expect(rows["flakes/p/TestElsewhere"].Verdict).To(Equal(row.New))
	g.Expect(rows["flakes/p/TestElsewhere"].Reason).To(ContainSubstring("asks for more than there is"))
	g.Expect(rows["flakes/test/e2e/TestE"].Verdict).To(Equal(row.New))
	g.Expect(rows["flakes/test/e2e/TestE"].Reason).To(ContainSubstring("make e2e"))
	g.Expect(rows["flakes/broken"].Verdict).To(Equal(row.Worse))
	g.Expect(rows["flakes/broken"].Reason).To(ContainSubstring("undefined: nothing"))
}

func TestWhatTakesTooLongSaysHowOftenItRan(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rows := check(t, files{"go.mod": "module m\n"}, files{"go.mod": "module m\n", "p/p_test.go": unsteady})
	g.Expect(rows["flakes/p/TestSlow"].Verdict).To(Equal(row.New))
	g.Expect(rows["flakes/p/TestSlow"].Head).To(Equal("0 of 20 passed"))
	g.Expect(rows["flakes/p/TestSlow"].Reason).To(ContainSubstring("6s allow no more runs: go test"))
	g.Expect(rows["flakes/p/TestOne"].Head).To(Equal("1 of 20 passed"))
	g.Expect(rows["flakes/p/TestOne"].Verdict).To(Equal(row.New))
}

func TestNothingChangedIsARow(t *testing.T) {
	t.Parallel()
	tree := files{"go.mod": "module m\n", "p/p_test.go": plain}
	NewWithT(t).Expect(check(t, tree, tree)).To(Equal(map[string]row.Row{"flakes/changed specs": {ID: "flakes/changed specs", Base: "0", Head: "0", Verdict: row.Same}}))
}

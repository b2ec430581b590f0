package testrun_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/testrun"
)

const root = "../../../.."

const tests = `package p

import (
	"testing"
	"time"
)

func TestOne(t *testing.T) {
	time.Sleep(20 * time.Millisecond)
	t.Run("below", func(t *testing.T) { t.Log("said below") })
}

func TestTwo(t *testing.T) { t.Error("for this reason") }

func TestHang(t *testing.T) { time.Sleep(time.Hour) }
`

// counted fails in the third process that runs it.
const counted = `package s

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestS(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "s")
}

var _ = Describe("A", func() {
	It("counts", func() {
		count, _ := os.ReadFile("count")
		Expect(os.WriteFile("count", append(count, 'x'), 0o600)).To(Succeed())
		Expect(len(count)).To(BeNumerically("<", 2))
	})
	It("never runs", func() { Fail("it did") })
})
`

func tree(t *testing.T, files map[string]string) testrun.Tree {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	found, err := testrun.New(dir, t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	return found
}

func TestGo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	suite, problem, err := tree(t, map[string]string{"go.mod": "module m\n", "p/p_test.go": tests}).Compile(t.Context(), "./p")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problem).To(BeEmpty())

	o, err := suite.Go(t.Context(), []string{"TestOne", "TestTwo"}, 2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Problem).To(BeEmpty())
	var got []string
	for _, r := range o.Results {
		got = append(got, r.Name+" "+string(r.State))
	}
	g.Expect(got).To(Equal([]string{"TestOne passed", "TestTwo failed", "TestOne passed", "TestTwo failed"}))
	g.Expect(o.Results[0].Said).To(ContainSubstring("said below"))
	g.Expect(o.Results[0].Took).To(BeNumerically(">=", 20*time.Millisecond))
	g.Expect(o.Results[1].Said).To(ContainSubstring("for this reason"))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	o, err = suite.Go(ctx, []string{"TestOne", "TestHang"}, 1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Results).To(HaveLen(1), "what was interrupted has neither passed nor failed")
}

func TestWhatDoesNotCompileIsAProblem(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, problem, err := tree(t, map[string]string{"go.mod": "module m\n", "p/p_test.go": "package p\n\nvar _ = nothing\n"}).Compile(t.Context(), "./p")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problem).To(ContainSubstring("undefined: nothing"))
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	// The module has what this one requires, so that nothing is downloaded.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	g.Expect(err).NotTo(HaveOccurred())
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	g.Expect(err).NotTo(HaveOccurred())
	of := tree(t, map[string]string{"go.mod": string(bytes.Replace(mod, []byte("module leasehold.dev"), []byte("module m"), 1)), "go.sum": string(sum), "s/s_test.go": counted})
	of.Ginkgo, err = testrun.FindGinkgo(t.Context(), root, of.Work)
	g.Expect(err).NotTo(HaveOccurred())
	suite, problem, err := of.Compile(t.Context(), "./s")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problem).To(BeEmpty())

	o, err := suite.Specs(t.Context(), []string{"--focus-file=s_test.go:17-18"}, 2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Rounds).To(Equal(2))
	g.Expect(o.Results).To(HaveLen(1))
	g.Expect(o.Results[0].Name).To(Equal("A counts"))
	g.Expect(o.Results[0].State).To(Equal(testrun.Passed))

	o, err = suite.Specs(t.Context(), []string{"--focus-file=s_test.go:17-18"}, 2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Rounds).To(BeZero())
	g.Expect(o.Problem).To(BeEmpty())
	g.Expect(o.Results[0].State).To(Equal(testrun.Failed))
	g.Expect(o.Results[0].Said).To(ContainSubstring("s_test.go:20"))
}

func TestTail(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(testrun.Tail(" short \n", 10)).To(Equal("short"))
	g.Expect(testrun.Tail("first\nsecond\nthird", 14)).To(Equal("second\nthird"))
	g.Expect(testrun.Tail("a long line of words", 5)).To(Equal("words"))
}

package learned_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/learned"
)

func TestWhatWasLearnedIsKept(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "tolerance.yaml")
	first, err := learned.Load(path)
	g.Expect(err).NotTo(HaveOccurred(), "nothing was learned yet")
	g.Expect(first.Of("times/a")).To(Equal(1.0))

	for _, ratio := range []float64{1, 1.2, 0.8} {
		first.See("times/a", ratio)
	}
	first.See("times/still", 1.001)
	first.Learn("linux/amd64, 2 cores", "2026-11-21")
	g.Expect(first.Save(path)).To(Succeed())

	again, err := learned.Load(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Of("times/a")).To(Equal(0.6), "0.8 is as far off as 1.25, and that twice over is 1.5625")
	g.Expect(again.Of("times/still")).To(Equal(0.5), "no less than this")
	g.Expect(again.Of("times/new")).To(Equal(1.0), "nothing was learned of it")
	g.Expect(again.Runs).To(Equal(3))
	g.Expect(again.Machine).To(Equal("linux/amd64, 2 cores"))

	again.See("times/a", 1)
	again.Learn("another", "2026-11-22")
	g.Expect(again.Of("times/a")).To(Equal(0.5), "learned anew")
	g.Expect(again.Of("times/still")).To(Equal(0.5), "kept")
}

func TestAFileThatCannotBeReadIsNoFile(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "tolerance.yaml")
	g.Expect(os.WriteFile(path, []byte("figures: 7"), 0o600)).To(Succeed())
	_, err := learned.Load(path)
	g.Expect(err).To(MatchError(ContainSubstring(path)))
}

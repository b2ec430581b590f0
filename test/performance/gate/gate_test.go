package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// values are ten samples that differ by less than 2 %.
func values(center float64) (all []float64) {
	for i := range 10 {
		all = append(all, center*(1+float64(i%3)/100))
	}
	return all
}

// exact are ten samples without noise.
func exact(value float64) (all []float64) {
	for range 10 {
		all = append(all, value)
	}
	return all
}

func TestCompareSamples(t *testing.T) {
	allocs, size, seconds := measurement{"tenant.Decide", "allocs/op"}, measurement{"tenant.Decide", "B/op"},
		measurement{"tenant.Decide/n=9", "sec/op"}
	base := samples{allocs: exact(4), size: exact(1000), seconds: values(1e-6)}
	for name, tc := range map[string]struct {
		of   measurement
		head []float64
		want verdict
	}{
		"the same":                    {seconds, values(1e-6), same},
		"one allocation more":         {allocs, exact(5), isWorse},
		"one allocation more by luck": {allocs, append(exact(4), 5), same},
		"one allocation fewer":        {allocs, exact(3), better},
		"bytes within the tolerance":  {size, exact(1009), same},
		"more bytes":                  {size, exact(1100), isWorse},
		"a slower machine":            {seconds, values(1.4e-6), same},
		"twice the time":              {seconds, values(2e-6), isWorse},
		"half the time":               {seconds, values(0.5e-6), better},
		"a busy machine":              {seconds, append(values(3e-6), values(1e-6)[:4]...), same},
		"one slow run":                {seconds, append(values(1e-6), 1), same},
		"twice the time once":         {seconds, []float64{2e-6}, same},
		"a new benchmark":             {measurement{"tenant.New", "sec/op"}, values(1), added},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := compareSamples(base, samples{tc.of: tc.head})
			g.Expect(found).To(HaveLen(1))
			g.Expect(found[0].verdict).To(Equal(tc.want), found[0].reason)
			g.Expect(found[0].id).To(Equal("benchmarks/" + tc.of.name + " " + tc.of.unit))
			if tc.want == same {
				g.Expect(found[0].reason).To(BeEmpty())
			} else {
				g.Expect(found[0].reason).NotTo(BeEmpty())
			}
		})
	}
}

func TestReadBenchmarks(t *testing.T) {
	g, s := NewWithT(t), samples{}
	output := []byte("goos: linux\nBenchmarkDecide/n=4 \t 100\t 30.5 ns/op\t 16 B/op\t 2 allocs/op\nPASS\n")
	g.Expect(s.read("tenant", output, []string{"sec/op"})).To(Succeed())
	g.Expect(s.read("tenant", output, []string{"allocs/op", "B/op"})).To(Succeed())
	g.Expect(s[measurement{"tenant.Decide/n=4", "sec/op"}]).To(HaveExactElements(BeNumerically("~", 30.5e-9)))
	g.Expect(s[measurement{"tenant.Decide/n=4", "allocs/op"}]).To(Equal([]float64{2}))
	g.Expect(s).To(HaveLen(3))
	g.Expect(s.read("tenant", []byte("BenchmarkX 	 100	 30.5 ns/op\n"), []string{"B/op"})).
		To(MatchError(ContainSubstring("b.ReportAllocs")))
	g.Expect(s.read("tenant", []byte("BenchmarkX 	 many	 30.5 ns/op\n"), nil)).To(HaveOccurred())
}

// Fewer rounds could never be significant.
func TestLeastRounds(t *testing.T) {
	m := measurement{"x", "sec/op"}
	for rounds, want := range map[int]verdict{leastRounds - 1: same, leastRounds: isWorse} {
		var low, high []float64
		for i := range rounds {
			low, high = append(low, 1+float64(i)/1000), append(high, 3+float64(i)/1000)
		}
		if got := compareSamples(samples{m: low}, samples{m: high})[0].verdict; got != want {
			t.Errorf("%d rounds: %s, want %s", rounds, got, want)
		}
	}
}

func TestAllow(t *testing.T) {
	g := NewWithT(t)
	found := []finding{{id: "benchmarks/a sec/op", verdict: isWorse}, {id: "benchmarks/b sec/op", verdict: isWorse},
		{id: "flakes/c", verdict: same}}
	notices := allow(found, []string{"benchmarks/a: it does more", "flakes/c: why not", "benchmarks/b", ": no ID"})
	g.Expect(found[0]).To(Equal(finding{id: "benchmarks/a sec/op", verdict: allowed, reason: "it does more"}))
	g.Expect(worse(found)).To(Equal([]finding{{id: "benchmarks/b sec/op", verdict: isWorse}}))
	g.Expect(notices).To(HaveExactElements(
		ContainSubstring("`Gate-Allow: flakes/c` was not needed"), ContainSubstring("has no effect"),
		ContainSubstring("has no effect")))
	text := render("0123456789abcdef", found, notices)
	g.Expect(text).To(And(ContainSubstring("# Compared with 0123456789ab\n"),
		ContainSubstring("1 worse, 1 allowed, 0 better, 0 new, 1 the same"),
		MatchRegexp(`(?s)\| worse \| benchmarks/b.*\| allowed \| benchmarks/a`), Not(ContainSubstring("| flakes/c |"))))
	g.Expect(render("0", []finding{{id: "x", verdict: same}}, nil)).NotTo(ContainSubstring("|"))
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	o, err := parse([]string{"-base", "main", "-only", "flakes,benchmarks"}, io.Discard)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.only).To(Equal([]string{"flakes", "benchmarks"}))
	for message, args := range map[string][]string{
		"make gate BASE=": {},
		"at least 5":      {"-base", "main", "-rounds", "4"},
		`"counts"`:        {"-base", "main", "-only", "counts"},
	} {
		_, err := parse(args, io.Discard)
		g.Expect(err).To(MatchError(ContainSubstring(message)))
	}
}

func TestRepetition(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	for name, text := range map[string]string{
		"p/a_test.go":                "package p\n\nfunc TestA(t *testing.T) {}\n\nfunc TestB(t *testing.T) {}\n",
		"p/helpers_test.go":          "package p\n\nfunc help() {}\n",
		"hack/x/go.mod":              "module x\n",
		"test/harness/go.mod":        "module h\n",
		"test/harness/env/a_test.go": "package env\n\nfunc TestA(t *testing.T) {}\n",
		"hack/x/y/z_test.go":         "package y\n",
	} {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	of := func(pkg string, files ...string) []string {
		command, _, err := repetition(dir, pkg, files)
		g.Expect(err).NotTo(HaveOccurred())
		return command
	}
	g.Expect(of("p", "a_test.go")).To(Equal([]string{"go", "test", "-count=1", "-run", "^(TestA|TestB)$", "./p"}))
	g.Expect(of("p", "a_test.go", "helpers_test.go")).To(ContainElement("."))
	g.Expect(of("test/integration/tenant", "a_test.go")).
		To(ContainElements(`--focus-file=/a_test\.go$`, "./test/integration/tenant"))
	g.Expect(of("test/e2e", "a_test.go")).To(BeNil())
	g.Expect(of("hack/x/y", "z_test.go")).To(BeNil())
	g.Expect(of("test/harness/env", "a_test.go")).
		To(Equal([]string{"go", "-C", "test/harness", "test", "-count=1", "-run", "^(TestA)$", "./env"}))
	_, _, err := repetition(dir, "p", []string{"missing_test.go"})
	g.Expect(err).To(HaveOccurred())
}

func TestRepeat(t *testing.T) {
	g := NewWithT(t)
	sh := func(script string, limit time.Duration) (string, verdict) {
		head, v, _, err := repeat(t.Context(), t.TempDir(), []string{"sh", "-c", script}, limit)
		g.Expect(err).NotTo(HaveOccurred())
		return head, v
	}
	head, v := sh("true", time.Minute)
	g.Expect([]any{head, v}).To(Equal([]any{"20 passed", same}))
	head, v = sh(`echo >> runs; [ $(wc -l < runs) -lt 3 ]`, time.Minute)
	g.Expect([]any{head, v}).To(Equal([]any{"2 passed, then 1 failed", isWorse}))
	_, v = sh("exec sleep 60", 50*time.Millisecond)
	g.Expect(v).To(Equal(added), "no run has ended")
	_, _, _, err := repeat(t.Context(), t.TempDir(), []string{"no-such-program"}, math.MaxInt64)
	g.Expect(err).To(HaveOccurred())
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// values returns ten samples that differ by at most 2 %.
func values(center float64) (all []float64) {
	for i := range 10 {
		all = append(all, center*(1+float64(i%3)/100))
	}
	return all
}

func TestCompare(t *testing.T) {
	exact := func(value float64) []float64 { return slices.Repeat([]float64{value}, 10) }
	const allocs, size, seconds = "tenant.Decide allocs/op", "tenant.Decide B/op", "tenant.Decide/n=9 sec/op"
	const heap, start = "tenant.Heap live-B/op", "starts.Ready sec/op"
	base := samples{allocs: exact(4), size: exact(1000), seconds: values(1e-6), heap: exact(256), start: values(1.2)[:6]}
	for name, tc := range map[string]struct {
		of   string
		head []float64
		want verdict
	}{
		"the same":                    {seconds, values(1e-6), same},
		"one allocation more":         {allocs, exact(5), worse},
		"one allocation more by luck": {allocs, append(exact(4), 5), same},
		"one allocation fewer":        {allocs, exact(3), better},
		"bytes within the tolerance":  {size, exact(1009), same},
		"more bytes":                  {size, exact(1100), worse},
		"a slower machine":            {seconds, values(1.4e-6), same},
		"twice the time":              {seconds, values(2e-6), worse},
		"half the time":               {seconds, values(0.5e-6), better},
		"a busy machine":              {seconds, append(values(3e-6), values(1e-6)[:4]...), same},
		"one slow run":                {seconds, append(values(1e-6), 1), same},
		"twice the time once":         {seconds, []float64{2e-6}, same},
		"64 KiB left behind":          {heap, values(64 << 10)[:6], worse},
		"noise of a heap":             {heap, values(300), same},
		"a start that takes 3 s more": {start, values(4.2)[:6], worse},
		"a slower start, five times":  {start, append(values(4.2)[:5], 1.2), same},
		"a new benchmark":             {"tenant.New sec/op", values(1), added},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := compare(base, samples{tc.of: tc.head})
			g.Expect(found).To(HaveLen(1))
			g.Expect(found[0].verdict).To(Equal(tc.want), found[0].reason)
			g.Expect(found[0].id).To(Equal("benchmarks/" + tc.of))
		})
	}
}

func TestGateReportsTheFolder(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	write := func(name, text string) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	judge := func() (string, error) {
		var out strings.Builder
		err := gate(t.Context(), []string{"-base", "0123456789abcdef", dir}, &out)
		return out.String(), err
	}
	for side, allocs := range map[string]string{"base": "2", "head": "3"} {
		line := "BenchmarkDecide/n=4 \t 100\t 30.5 ns/op\t 16 B/op\t " + allocs + " allocs/op\n"
		output := "pkg: leasehold.dev/controllers/tenant\n" + strings.Repeat(line, 6) + "PASS\n"
		write(side+"-counts.txt", output)
		write(side+"-times.txt", output)
	}
	write("flakes.txt", "flakes/a\tworse\tone failed\t--- FAIL: TestX\nflakes/b\tsame\t20 passed\t\n")
	write("allowed.txt", "benchmarks/tenant: it does more\n\nflakes/b: why not\nflakes/a\n: no ID\n")

	report, err := judge()
	g.Expect(err).To(MatchError(errWorse))
	g.Expect(report).To(And(HavePrefix("# Compared with 0123456789ab\n"),
		ContainSubstring("1 worse, 1 allowed, 0 better, 0 new, 3 the same"),
		MatchRegexp(`(?s)\| worse \| flakes/a \|  \| one failed \| --- FAIL: TestX \|\n`+
			`\| allowed \| benchmarks/tenant.Decide/n=4 allocs/op \| 2.* \| 3.* \| it does more \|\n`),
		Not(ContainSubstring("| flakes/b |")), ContainSubstring("`Gate-Allow: flakes/b: why not` has no effect"),
		ContainSubstring("`Gate-Allow: flakes/a` has no effect"), ContainSubstring("`Gate-Allow: : no ID` has no effect")))

	write("allowed.txt", "benchmarks/tenant: it does more\nflakes/: they were\n")
	_, err = judge()
	g.Expect(err).NotTo(HaveOccurred())

	for _, broken := range []string{"BenchmarkX \t 100\t 30.5 ns/op\n", "BenchmarkX \t many\t 1 B/op\t 1 allocs/op\n"} {
		write("head-counts.txt", broken)
		_, err = judge()
		g.Expect(err).To(HaveOccurred())
		g.Expect(err).NotTo(MatchError(errWorse), "it could not be judged")
	}
}

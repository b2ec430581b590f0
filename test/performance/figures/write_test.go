package figures_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"gotest.tools/v3/golden"

	. "leasehold.dev/test/performance/figures"
)

// example has one of everything that a report can have.
func example() Report {
	return Report{
		Commit:  "0123abc-dirty",
		Seed:    7,
		Started: time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC),
		Took:    754321 * time.Millisecond,
		Machine: Machine{System: "linux/amd64", Cores: 2, Memory: 24 << 30, Go: "go1.26.8", Load: 0.25},
		Sections: []Section{
			{
				ID: "failover", Title: "Until another leads", Took: 12 * time.Minute,
				Text: "The leader is killed.\n\nThen one waits.\n",
				Figures: []Figure{
					{ID: "F1.kill", Title: "killed | crashed", Runs: []float64{0.98, 1, 1.01}, Goal: AtMost(1.02),
						Note: "in lengths of a lease"},
					{ID: "F1.kill.peer", Title: "killed, the stock elector", Runs: []float64{1.27, 1.06}},
					{ID: "F2.stop", Title: "stopped", Unit: "s", Runs: []float64{0.0049, 0.0071, 0.065}, Goal: AtMost(0.05)},
					{ID: "F3.zombie", Title: "writes of the former leader", Runs: []float64{0, 0}, Goal: Exactly(0)},
				},
			},
			{
				ID: "scale", Title: "Many at a time", Took: 4300 * time.Millisecond,
				Failure: "starting a control plane: no room\nthe end of its log:\n  *no* room",
				Figures: []Figure{
					{ID: "W4.1000", Title: "1000 of them, over the time of the writes alone", Runs: []float64{1.31},
						Goal: MedianAtMost(1.15)},
					{ID: "M1", Title: "memory for each", Unit: "B", Goal: AtMost(4096)},
				},
			},
		},
	}
}

func TestWrite_Golden(t *testing.T) {
	t.Parallel()
	for file, write := range map[string]func(io.Writer) error{
		"report.txt": example().WriteTable,
		"report.md":  example().WriteMarkdown,
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden.Assert(t, got.String(), file)
		})
	}
}

func TestEncode_NoNumberIsNull(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var text bytes.Buffer
	r := Report{Sections: []Section{{Figures: []Figure{{ID: "x", Runs: []float64{1, math.NaN(), math.Inf(1)}}}}}}
	g.Expect(r.Encode(&text)).To(Succeed())
	g.Expect(strings.Join(strings.Fields(text.String()), "")).To(ContainSubstring(`"runs":[1,null,null]`))
}

func TestMissed_NamesGoalsAndGaps(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var ids []string
	for _, f := range example().Missed() {
		ids = append(ids, f.ID)
	}
	g.Expect(ids).To(Equal([]string{"F2.stop", "W4.1000", "M1"}))
	g.Expect(example().Failed()).To(HaveLen(1))
}

func TestWriteLeavesAllFiles(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "made")
	g.Expect(Write(dir, example())).To(Succeed())
	text, err := os.ReadFile(filepath.Join(dir, JSONFile))
	g.Expect(err).NotTo(HaveOccurred())
	var read Report
	g.Expect(json.Unmarshal(text, &read)).To(Succeed())
	g.Expect(read.Sections).To(HaveLen(len(example().Sections)))
	g.Expect(read.Missed()).To(HaveLen(len(example().Missed())))
	g.Expect(filepath.Join(dir, MarkdownFile)).To(BeARegularFile())
}

func TestWrite_ReportsWriteErrors(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer) error{
		"Table": example().WriteTable, "Markdown": example().WriteMarkdown, "JSON": example().Encode,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(write(full{})).To(MatchError(errFull))
		})
	}
}

var errFull = errors.New("the disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestThisMachine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	m := ThisMachine()
	g.Expect(m.Cores).To(BeNumerically(">=", 1))
	g.Expect(m.Go).To(HavePrefix("go"))
	if _, err := os.Stat("/proc/meminfo"); err == nil {
		g.Expect(m.Memory).To(BeNumerically(">", 64<<20))
		g.Expect(m.String()).To(ContainSubstring("of memory"))
	}
}

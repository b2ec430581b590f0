package figures_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	"gotest.tools/v3/golden"

	. "leasehold.dev/test/harness/figures"
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
					{ID: "F1.kill", Title: "killed | crashed", Runs: []float64{0.98, 1, 1.01}, Goal: AtMost(1.02), Note: "in lengths of a lease"},
					{ID: "F1.kill.peer", Title: "killed, the stock elector", Runs: []float64{1.27, 1.06}},
					{ID: "F2.stop", Title: "stopped", Unit: "s", Runs: []float64{0.0049, 0.0071, 0.065}, Goal: AtMost(0.05)},
					{ID: "F3.zombie", Title: "writes of the former leader", Runs: []float64{0, 0}, Goal: Exactly(0)},
				},
				Plots: []Plot{{
					Name: "failover-kill", Title: "Until another leads, by how the leader ended", XLabel: "trial", YLabel: "seconds", LogY: true,
					Series: []Series{
						{Name: "killed, stock", Line: true, Points: []Point{{X: 1, Y: 14.9}, {X: 2, Y: 15.9}, {X: 3, Y: 19}}},
						{Name: "killed", Points: []Point{{X: 1, Y: 13.7}, {X: 2, Y: 14.2}, {X: 3, Y: 0}}},
						{Name: "stopped", Points: []Point{{X: 1, Y: 0.005}, {X: 2, Y: 0.007}, {X: 3, Y: 0.065}}},
					},
				}},
			},
			{
				ID: "scale", Title: "Many at a time", Took: 4300 * time.Millisecond,
				Failure: "starting a control plane: no room\nthe end of its log:\n  *no* room",
				Figures: []Figure{
					{ID: "W4.1000", Title: "1000 of them, over the time of the writes alone", Runs: []float64{1.31}, Goal: MedianAtMost(1.15)},
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

func TestJSON_RoundTrip(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := example()
	r.Sections[0].Figures[0].Runs = []float64{1, math.NaN()}
	r.Sections[0].Plots[0].Series[0].Points[0].Y = math.NaN()
	var text bytes.Buffer
	g.Expect(r.Encode(&text)).To(Succeed())
	got, err := Decode(&text)
	g.Expect(err).NotTo(HaveOccurred())
	if diff := cmp.Diff(r, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
	g.Expect(got.Sections[0].Figures[0].Verdict()).To(Equal(Missed), "what was no number is none")
}

func TestDecode_InfinityIsNoNumber(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var text bytes.Buffer
	r := Report{Sections: []Section{{Figures: []Figure{{ID: "x", Runs: []float64{math.Inf(1)}, Goal: AtMost(1)}}}}}
	g.Expect(r.Encode(&text)).To(Succeed())
	got, err := Decode(&text)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(math.IsNaN(got.Sections[0].Figures[0].Runs[0])).To(BeTrue())
}

func TestDecode_RejectsOtherFiles(t *testing.T) {
	t.Parallel()
	_, err := Decode(strings.NewReader("figures"))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("decoding a report")))
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
	file, err := os.Open(filepath.Join(dir, JSONFile))
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	read, err := Decode(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmp.Diff(example(), read)).To(BeEmpty())
	page, err := os.ReadFile(filepath.Join(dir, MarkdownFile))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(page)).To(ContainSubstring("(failover-kill.svg)"))
	g.Expect(filepath.Join(dir, "failover-kill.svg")).To(BeARegularFile())
}

func TestWrite_OneBadPlotSparesTheRest(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{"Nameless": "", "Elsewhere": "../x", "Twice": "failover-kill"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dir, r := t.TempDir(), example()
			r.Sections[1].Plots = []Plot{{Name: bad}}
			g.Expect(Write(dir, r)).To(MatchError(ContainSubstring("of section scale")))
			g.Expect(filepath.Join(dir, JSONFile)).To(BeARegularFile())
			g.Expect(filepath.Join(dir, "failover-kill.svg")).To(BeARegularFile())
		})
	}
}

func TestPlots(t *testing.T) {
	t.Parallel()
	cloud := []Point{{X: 1, Y: 2}, {X: 2, Y: 3}}
	for name, tc := range map[string]struct {
		plot Plot
		want []string // texts
	}{
		"AsAsked":          {example().Sections[0].Plots[0], []string{"trial", "seconds", "killed, stock", "killed (1 not shown)", "stopped", "0.01", "100"}},
		"LogInOneDecade":   {Plot{LogY: true, Series: []Series{{Name: "few", Points: cloud}}}, []string{"1", "10"}},
		"LogOfAPowerOfTen": {Plot{LogY: true, Series: []Series{{Name: "one", Points: []Point{{X: 1, Y: 10}}}}}, []string{"10", "100"}},
		"LogWithNothing":   {Plot{LogY: true, Series: []Series{{Name: "zero", Points: []Point{{X: 1, Y: 0}}}}}, []string{"zero (1 not shown)"}},
		"Empty":            {Plot{XLabel: "nothing"}, []string{"nothing"}},
		"NoNumbers":        {Plot{Series: []Series{{Name: "lost", Points: []Point{{X: math.NaN(), Y: 1}, {X: 1, Y: math.Inf(1)}}}}}, []string{"lost (2 not shown)"}},
		"Below":            {Plot{Series: []Series{{Name: "below", Points: []Point{{X: 0, Y: -5}, {X: 0, Y: 5}}}}}, []string{"-5"}},
		"MoreThanColours":  {Plot{Series: []Series{{Points: cloud}, {}, {}, {}, {}, {}, {}, {}, {Name: "ninth", Points: cloud}}}, []string{"ninth"}},
		"Great":            {Plot{Series: []Series{{Points: []Point{{X: 0, Y: 8e6}, {X: 5000, Y: 4e6}}}}}, []string{"4 M", "5000"}},
		"ALongLine":        {Plot{Series: []Series{{Name: "long", Line: true, Points: slices.Repeat(cloud, 100)}}}, []string{"long"}},
		"Escaped":          {Plot{Title: "a < b & c"}, []string{"a < b & c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var svg bytes.Buffer
			g.Expect(tc.plot.WriteSVG(&svg)).To(Succeed())
			texts := textsOf(t, svg.String())
			for _, want := range tc.want {
				g.Expect(texts).To(ContainElement(want))
			}
			g.Expect(svg.String()).NotTo(ContainSubstring("NaN"))
		})
	}
}

// textsOf are the words in a picture, which has to be well-formed.
func textsOf(t *testing.T, svg string) []string {
	t.Helper()
	var texts []string
	decoder, inText := xml.NewDecoder(strings.NewReader(svg)), false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				texts = append(texts, string(token))
			}
		}
	}
}

func TestWrite_ReportsWriteErrors(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer) error{
		"Table": example().WriteTable, "Markdown": example().WriteMarkdown, "JSON": example().Encode, "SVG": example().Sections[0].Plots[0].WriteSVG,
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

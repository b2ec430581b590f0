// Package writes measures how often the operator asks the API server for something,
// against how often it has to (W1, W2, W3 and W5).
package writes

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/stage"
)

// takes is how often the story is played. The numbers are the same each time but for
// how many passes it took.
const takes = 3

// about says how it was measured.
const about = `Counted in the API server's audit log, under the ServiceAccount that ships, with two replicas. Left out is what
depends on time alone: renewals of the Lease, reviews, the webhooks' certificate. The story goes on only when the operator is at
rest, and plays the Deployment and the namespace controller, as their pace would be in the numbers. Events are not among the writes.

`

// Measure plays the story, and has others edit what the operator works on.
func Measure(ctx context.Context, b stage.Bench) (figures.Section, error) {
	began := b.Clock.Now()
	section := figures.Section{ID: "writes", Title: "What a change costs at the API server"}
	runs, err := play(ctx, b)
	if len(runs) > 0 {
		section.Text = about + table(runs[0])
		section.Figures = judge(runs)
	}
	if err == nil {
		var contest figures.Figure
		contest, err = contend(ctx, b)
		section.Figures = append(section.Figures, contest)
	}
	section.Took = b.Clock.Since(began)
	return section, err
}

func play(ctx context.Context, b stage.Bench) (runs [][]counts.Phase, err error) {
	n := takes
	if b.Quick {
		n = 1
	}
	for run := range n {
		b.Say("story %d of %d", run+1, n)
		bench := b
		bench.Dir = filepath.Join(b.Dir, "story-"+strconv.Itoa(run+1))
		phases, err := counts.Take(ctx, bench)
		if err != nil {
			return runs, err
		}
		runs = append(runs, phases)
	}
	return runs, nil
}

// judge makes figures of the runs of the story.
func judge(runs [][]counts.Phase) []figures.Figure {
	var list []figures.Figure
	for _, c := range costs {
		ratio := figures.Figure{ID: "W1." + c.phase, Title: "writes / necessary writes", Goal: figures.Exactly(1), Note: c.why}
		least := figures.Figure{ID: "W1." + c.phase + ".least", Title: "writes / least writes of any operator", Note: fmt.Sprintf("at least %d", c.least)}
		if c.ours == 0 {
			ratio.Title, ratio.Goal = "writes, of which none is necessary", figures.Exactly(0)
		}
		for _, run := range runs {
			for _, p := range run {
				if p.Name == c.phase {
					n := totalsOf(p).writes
					ratio.Runs = append(ratio.Runs, over(n, c.ours))
					least.Runs = append(least.Runs, over(n, c.least))
				}
			}
		}
		list = append(list, ratio)
		if c.least != c.ours {
			list = append(list, least)
		}
	}
	return append(list, append(steady(runs), passes(runs)...)...)
}

// over is a ratio, or the number itself where there is nothing to divide by.
func over(n, by int) float64 {
	if by == 0 {
		return float64(n)
	}
	return float64(n) / float64(by)
}

// steady are the figures of a fleet that is as desired.
func steady(runs [][]counts.Phase) []figures.Figure {
	var list []figures.Figure
	for _, name := range []string{"restart", "resync", "failover"} {
		writes := figures.Figure{ID: "W2." + name + ".writes", Title: "writes over a " + name + " of a converged fleet", Goal: figures.Exactly(0)}
		reads := figures.Figure{ID: "W2." + name + ".reads", Title: "live reads, likewise", Goal: figures.Exactly(0)}
		for _, run := range runs {
			for _, p := range run {
				if p.Name == "fleet."+name {
					total := totalsOf(p)
					writes.Runs = append(writes.Runs, float64(total.writes))
					reads.Runs = append(reads.Runs, float64(total.reads))
				}
			}
		}
		note := "each object was looked at after it"
		writes.Note, reads.Note = note, note
		list = append(list, writes, reads)
	}
	probe := figures.Figure{ID: "W2.probe.reads", Title: "live reads for each probe of a bucket",
		Note: "by D22: the Secret is read past the cache, so that no credential is ever kept and a rotation is used at once"}
	for _, run := range runs {
		for _, p := range run {
			if p.Name == "storagebucket.probe" {
				probe.Runs = append(probe.Runs, float64(totalsOf(p).reads))
			}
		}
	}
	return append(list, probe)
}

// passes are the figures of W3: for each kind, over all its phases.
func passes(runs [][]counts.Phase) []figures.Figure {
	var list []figures.Figure
	for _, kind := range []string{"tenant", "storagebucket", "markdownview"} {
		f := figures.Figure{ID: "W3." + kind, Title: "reconciles / changes from outside, over all phases", Goal: figures.AtMost(2)}
		for _, run := range runs {
			made, changes := 0, 0
			for _, p := range run {
				if kindOf(p.Name) == kind {
					made, changes = made+totalsOf(p).passes, changes+p.Changes
				}
			}
			f.Runs = append(f.Runs, over(made, changes))
		}
		list = append(list, f)
	}
	return list
}

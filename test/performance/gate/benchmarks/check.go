package benchmarks

import (
	"context"
	"slices"

	"leasehold.dev/test/performance/gate/learned"
	"leasehold.dev/test/performance/gate/row"
)

// Options say how much is measured.
type Options struct {
	// Rounds is how often each tree is measured, in turns. The best of them counts.
	Rounds int
	// Tolerances are those of the times.
	Tolerances *learned.Tolerances
}

// tries is how many times the rounds are run where something looks worse. A time
// that another program has spoiled is better the next time.
const tries = 3

// Check compares the benchmarks of two trees.
func (o Options) Check(ctx context.Context, p row.Pair) ([]row.Row, error) {
	packages, err := find(p.Head.Dir)
	if err != nil {
		return nil, err
	}
	base, head, err := compile(ctx, p, packages)
	if err != nil {
		return nil, err
	}
	removed, err := gone(p.Base.Dir, p.Head.Dir)
	if err != nil {
		return nil, err
	}
	best := pair{base: results{}, head: results{}}
	var found comparison
	for try := range tries {
		for round := range o.Rounds {
			p.Bench.Say("benchmarks: round %d of %d", try*o.Rounds+round+1, (try+1)*o.Rounds)
			if err := best.measure(ctx, base, head, round); err != nil {
				return nil, err
			}
		}
		found = compare(best, o.Tolerances.Of)
		if !slices.ContainsFunc(found.rows, func(r row.Row) bool { return r.Verdict == row.Worse }) {
			break
		}
	}
	for id, ratio := range found.ratios {
		o.Tolerances.See(id, ratio)
	}
	return append(found.rows, removed...), nil
}

// pair is the best that was measured of either tree.
type pair struct{ base, head results }

// measure runs all benchmarks of both trees once. Which goes first changes from round
// to round, so that neither always finds the machine as the other has left it.
func (p pair) measure(ctx context.Context, base, head []program, round int) error {
	for i := range max(len(base), len(head)) {
		turns := []struct {
			of   []program
			into results
		}{{base, p.base}, {head, p.head}}
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if i < len(turn.of) {
				if err := turn.of[i].run(ctx, turn.into); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

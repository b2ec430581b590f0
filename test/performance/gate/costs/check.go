package costs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"leasehold.dev/test/performance/counts"
	"leasehold.dev/test/performance/gate/learned"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

// Options say how much is measured.
type Options struct {
	// Rounds is how often each checkout is measured.
	Rounds int
	// Tolerances are those of passes and times.
	Tolerances *learned.Tolerances
}

// tries is how many times the rounds are run where only a time looks worse.
const tries = 2

// Check compares the phases of two checkouts.
func (o Options) Check(ctx context.Context, p row.Pair) ([]row.Row, error) {
	base, head := &side{name: "base", of: p.Base}, &side{name: "head", of: p.Head}
	var found comparison
	for range tries {
		for range o.Rounds {
			turns := []*side{base, head}
			// Who goes first changes, so that neither always finds the machine as the other
			// has left it.
			if len(base.rounds)%2 == 1 {
				slices.Reverse(turns)
			}
			for _, s := range turns {
				if err := s.take(ctx, p.Bench); err != nil {
					return nil, err
				}
			}
		}
		if found = compare(base.rounds, head.rounds, o.Tolerances.Of); !found.slow {
			break
		}
	}
	for id, ratio := range found.ratios {
		o.Tolerances.See(id, ratio)
	}
	return found.rows, nil
}

// side is one of the two checkouts and what was measured of it.
type side struct {
	name   string
	of     stage.Checkout
	rounds []round
}

func (s *side) take(ctx context.Context, b stage.Bench) error {
	name := fmt.Sprintf("%s, round %d", s.name, len(s.rounds)+1)
	b.Checkout, b.Dir = s.of, filepath.Join(b.Dir, fmt.Sprintf("%s-%d", s.name, len(s.rounds)+1))
	// Everything but the size of the fleet is the same, and a count does not need it.
	b.Quick = true
	say := b.Say
	b.Say = func(format string, args ...any) { say("%s: %s", name, fmt.Sprintf(format, args...)) }
	phases, err := counts.Take(ctx, b)
	if err != nil {
		return fmt.Errorf("measuring the %s: %w", name, err)
	}
	taken := round{}
	for _, phase := range phases {
		taken[phase.Name] = phase
	}
	s.rounds = append(s.rounds, taken)
	return nil
}

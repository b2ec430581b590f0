// Package judge has a pair of checkouts looked at by all checks of the gate.
package judge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/performance/gate/row"
)

// Check is one way to look at a pair.
type Check struct {
	// Name is how it is called by those who want only this one, and what the IDs of its
	// rows begin with.
	Name string
	// Run returns a row for each thing that was compared. An error is that the pair
	// could not be judged; rows that come with it hold all the same.
	Run func(context.Context, row.Pair) ([]row.Row, error)
}

// Finding is what became of one check.
type Finding struct {
	Check string        `json:"check"`
	Rows  []row.Row     `json:"rows"`
	Err   string        `json:"error,omitempty"` // why the pair could not be judged; empty if it was
	Took  time.Duration `json:"took"`
}

// Is returns the rows of a verdict.
func (f Finding) Is(verdict row.Verdict) []row.Row {
	return slices.DeleteFunc(slices.Clone(f.Rows), func(r row.Row) bool { return r.Verdict != verdict })
}

// Judge runs the checks one after another, as each takes the whole machine. One that
// fails does not keep the others from looking. The error is that of the context.
func Judge(ctx context.Context, checks []Check, p row.Pair) ([]Finding, error) {
	var all []Finding
	for i, c := range checks {
		f := Finding{Check: c.Name}
		began := p.Bench.Clock.Now()
		p.Bench.Say("check %d of %d: %s", i+1, len(checks), c.Name)
		own := p
		own.Bench.Dir = filepath.Join(p.Bench.Dir, c.Name)
		err := os.MkdirAll(own.Bench.Dir, 0o750)
		if err == nil {
			f.Rows, err = c.Run(ctx, own)
		}
		f.Took = p.Bench.Clock.Since(began)
		if err != nil {
			f.Err = err.Error()
		}
		p.Bench.Say("%s: %s (%s)", c.Name, f, f.Took.Round(time.Second))
		all = append(all, f)
		if ctx.Err() != nil {
			return all, fmt.Errorf("running the checks: %w", context.Cause(ctx))
		}
	}
	return all, nil
}

// String says in a few words what was found.
func (f Finding) String() string {
	if f.Err != "" {
		return "could not be judged: " + f.Err
	}
	texts := []string{fmt.Sprintf("%d compared", len(f.Rows))}
	for _, v := range []row.Verdict{row.Worse, row.Unclear, row.Allowed, row.Better, row.New, row.Gone} {
		if n := len(f.Is(v)); n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(texts, ", ")
}

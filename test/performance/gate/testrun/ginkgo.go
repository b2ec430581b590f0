package testrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/onsi/ginkgo/v2/types"
)

const (
	// processes are as many as `make integration` has.
	processes = 6
	report    = "gate-specs.json"
)

// again is what ginkgo says after each round but the last.
var again = regexp.MustCompile(`This was attempt (\d+) of \d+`)

// Specs runs specs as often as it is told, each round with what is around a suite.
// Which ones ginkgo's flags say, such as --focus-file=x_test.go:10-20; none is all.
// The results are those of the last round, which ends with the first that fails.
func (s Suite) Specs(ctx context.Context, which []string, count int) (Outcome, error) {
	work, err := os.MkdirTemp(s.tree.Work, "ginkgo-")
	if err != nil {
		return Outcome{}, fmt.Errorf("making a folder for reports: %w", err)
	}
	args := append([]string{"run", "--no-color", "--output-dir=" + work, "--json-report=" + report}, s.tree.SpecArgs(s.pkg, which, count)...)
	ok, said, err := s.tree.run(ctx, s.tree.Dir, work, s.tree.Ginkgo, args...)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Rounds: len(again.FindAll(said, -1))}
	// Of a round that was interrupted nothing is known.
	failed := ctx.Err() != nil
	if !failed {
		if o.Results, err = readReport(filepath.Join(work, report)); err != nil {
			return Outcome{}, err
		}
	}
	for _, r := range o.Results {
		failed = failed || r.State == Failed
	}
	switch {
	case ok:
		o.Rounds++
	case !failed:
		o.Problem = Tail(string(said), 2000)
	}
	return o, nil
}

// SpecArgs are the arguments of ginkgo run that do the same as Specs.
func (t Tree) SpecArgs(suite string, which []string, count int) []string {
	args := []string{"--procs=" + strconv.Itoa(processes), "--randomize-all", "--timeout=45m"}
	if t.Race {
		args = append(args, "--race")
	}
	if count > 1 {
		args = append(args, "--repeat="+strconv.Itoa(count-1))
	}
	return append(append(args, which...), suite)
}

// readReport takes what ran. A suite that does not compile leaves no report.
func readReport(path string) ([]Result, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what became of specs: %w", err)
	}
	var suites []types.Report
	if err := json.Unmarshal(raw, &suites); err != nil {
		return nil, fmt.Errorf("reading what became of specs: %w", err)
	}
	var results []Result
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			r := Result{Name: s.FullText(), Took: s.RunTime, State: Skipped, Said: s.Failure.Message}
			if s.LeafNodeType != types.NodeTypeIt {
				r.Name = s.LeafNodeType.String()
			}
			switch {
			case s.State.Is(types.SpecStatePassed):
				r.State = Passed
			case s.State.Is(types.SpecStateFailureStates):
				r.State = Failed
				r.Said = fmt.Sprintf("%s at %s", s.Failure.Message, s.FailureLocation())
			}
			// What is out of focus says nothing, and neither does what runs around the specs and passes.
			if (s.LeafNodeType == types.NodeTypeIt && (s.State != types.SpecStateSkipped || r.Said != "")) || r.State == Failed {
				results = append(results, r)
			}
		}
	}
	return results, nil
}

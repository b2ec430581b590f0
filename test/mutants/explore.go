package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"leasehold.dev/test/harness/explore"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/internal/tree"
)

// oracles judge what users may do, where invariants judge what faults do.
var oracles = []explore.Oracle{explore.Differential, explore.Restore, explore.Rejected, explore.Corrected}

// finding matches the prover's line about a repeated finding; the oracle is first.
var finding = regexp.MustCompile(`(?m)^ {4}(\w+) by .+ \(repeated: true\)$`)

// explore lets a user change an object of the operator in a folder, and returns the oracles that
// found something, and the first finding.
func (h *hunt) explore(ctx context.Context, root, name, change string) (fired []string, first string, err error) {
	prove := exec.CommandContext(ctx, h.options.prover, "--subject", filepath.Join(root, h.options.subject),
		"--dir", filepath.Join(h.options.dir, name), "--seed", strconv.FormatUint(h.options.seed, 10),
		"--workers", "1", "--explore", "1m", "--change", change)
	output, err := prove.CombinedOutput()
	found := finding.FindAllStringSubmatch(string(output), -1)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || len(found) == 0) {
		return nil, "", fmt.Errorf("exploring %s: %w\n%s", change, err, output)
	}
	for _, f := range found {
		fired = append(fired, f[1])
	}
	slices.Sort(fired)
	if len(found) > 0 {
		first = strings.TrimSpace(found[0][0])
	}
	return slices.Compact(fired), first, nil
}

// exploreUnchanged makes the changes of all mutants on the operator as it is. Nothing may be found.
func (h *hunt) exploreUnchanged(ctx context.Context, wanted []mutant) error {
	for _, m := range wanted {
		if m.Change == "" || !h.options.baseline {
			continue
		}
		began := h.clock.Now()
		fired, first, err := h.explore(ctx, h.options.root, m.name+"-unchanged", m.Change)
		if err != nil {
			return err
		}
		result := invariant.Held
		if len(fired) > 0 {
			result = invariant.Broken
			h.flaws = append(h.flaws, fmt.Sprintf("%s: %s", m.Change, first))
		}
		fmt.Fprintf(h.output, "without a mutant, %s: %s (%.1f s)\n", m.Change, result, h.clock.Since(began).Seconds())
	}
	return nil
}

// attemptChange makes the user's change on a mutant in a folder.
func (h *hunt) attemptChange(ctx context.Context, m mutant, dir string) row {
	began := h.clock.Now()
	r := row{Mutant: m.name, Class: m.Class, Bug: m.Bug, Plan: m.Change, Named: m.Kills, Verdict: invariant.Held,
		Result: survived}
	err := tree.Plant(ctx, h.options.root, dir, m.path)
	if err == nil {
		r.Fired, r.Why, err = h.explore(ctx, dir, m.name, m.Change)
	}
	switch {
	case err != nil:
		r.Result, r.Why = failed, err.Error()
	case slices.Contains(r.Fired, m.Kills):
		r.Verdict, r.Result = invariant.Broken, killed
	}
	r.Took = h.clock.Since(began)
	return r
}

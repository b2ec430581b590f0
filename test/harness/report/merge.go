// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/invariant"
)

// LoadSweep reads the summary.json that Save has written into dir.
func LoadSweep(dir string) (*Sweep, error) {
	text, err := os.ReadFile(filepath.Join(dir, summaryFile))
	if err != nil {
		return nil, fmt.Errorf("loading a sweep: %w", err)
	}
	s := &Sweep{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("loading a sweep from %s: %w", dir, err)
	}
	return s, nil
}

// Append adds the runs of a sweep, whose names get a prefix. The duration is then that of both sweeps,
// which may have run concurrently. The order of outcomes does not depend on the order of Append calls.
func (s *Sweep) Append(o *Sweep, prefix string) {
	renamed := func(all []invariant.Outcome) []invariant.Outcome {
		all = slices.Clone(all)
		for i := range all {
			all[i].Name = prefix + all[i].Name
		}
		return all
	}
	began := s.Began
	ended := slices.MaxFunc([]time.Time{s.Began.Add(s.Took), o.Began.Add(o.Took)}, time.Time.Compare)
	if began.IsZero() || !o.Began.IsZero() && o.Began.Before(began) {
		began = o.Began
	}
	s.Began, s.Took = began, ended.Sub(began)
	s.Clean = append(s.Clean, renamed(o.Clean)...)
	s.Outcomes = append(s.Outcomes, renamed(o.Outcomes)...)
	s.Left += o.Left
	slices.SortStableFunc(s.Outcomes, func(a, b invariant.Outcome) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.Name, b.Name))
	})
}

// CopyRuns copies the folders of the sweep's runs that were kept in from to the folder to. Their
// names get a prefix, as the runs that Append adds.
func (s *Sweep) CopyRuns(from, to, prefix string) error {
	for _, o := range slices.Concat(s.Clean, s.Outcomes) {
		kept := os.DirFS(filepath.Join(from, o.Name))
		if _, err := fs.Stat(kept, caseFile); errors.Is(err, fs.ErrNotExist) {
			continue // only some runs are kept
		}
		if err := os.CopyFS(filepath.Join(to, prefix+o.Name), kept); err != nil {
			return fmt.Errorf("copying run %s: %w", o.Name, err)
		}
	}
	return nil
}

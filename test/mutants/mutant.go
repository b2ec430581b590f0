// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/internal/tree"
)

// mutant is the operator with one mistake. Its file is a patch with a YAML header, which patch ignores.
type mutant struct {
	// name is the file's name without its extension.
	name string
	// path is where the file is.
	path string

	// Class is the class of mistakes that it is one of: see classes.yaml.
	Class string `json:"class"`
	// Bug describes the defect in one sentence.
	Bug string `json:"bug"`
	// Kills is the name of the invariant that has to find it.
	Kills string `json:"kills"`
	// Plans must all find it: IDs of plans, and scenarios without a fault.
	Plans []string `json:"plans"`
}

// patchesIn is the folder of the patches in that of the mutants, below the root.
func patchesIn(root, folder string) string { return filepath.Join(root, folder, "patches") }

// load reads all mutants of a folder, by name.
func load(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, fmt.Errorf("looking for mutants: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("looking for mutants: there are none in %s", dir)
	}
	slices.Sort(files)
	all := make([]mutant, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a mutant: %w", err)
		}
		if all[i], err = parseMutant(text); err != nil {
			return nil, fmt.Errorf("reading the mutant %s: %w", file, err)
		}
		all[i].name = strings.TrimSuffix(filepath.Base(file), ".patch")
		if all[i].path, err = filepath.Abs(file); err != nil {
			return nil, fmt.Errorf("reading the mutant %s: %w", file, err)
		}
	}
	return all, nil
}

// parseMutant reads the header of a patch.
func parseMutant(text []byte) (m mutant, err error) {
	if err := tree.Header(text, &m); err != nil {
		return m, err
	}
	return m, m.validate()
}

// validate finds what could not be tried.
func (m mutant) validate() error {
	var errs []error
	need := func(there bool, text string) {
		if !there {
			errs = append(errs, errors.New(text))
		}
	}
	need(m.Class != "", "class: say what kind of mistake it is")
	need(m.Bug != "", "bug: say what is wrong")
	need(len(m.Plans) > 0, "plans: say in what it has to show")
	need(slices.ContainsFunc(invariant.All(), func(i invariant.Invariant) bool { return i.Name == m.Kills }),
		fmt.Sprintf("kills: no invariant is called %q", m.Kills))
	for _, id := range m.Plans {
		if _, _, err := planOf(id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// planOf parses a name in Plans: a scenario, and its fault; nil means no fault.
func planOf(id string) (of string, plan *run.Plan, err error) {
	if !strings.Contains(id, ":") {
		return id, nil, nil
	}
	p, err := run.ParsePlan(id)
	if err != nil {
		return "", nil, err
	}
	return p.Scenario, &p, nil
}

// chosen returns the mutants whose names match.
func chosen(all []mutant, match *regexp.Regexp) []mutant {
	return slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !match.MatchString(m.name) })
}

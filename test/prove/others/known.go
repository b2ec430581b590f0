package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
)

// known is a file known.yaml.
type known struct {
	// Flags select the plans, so that all operators take at most an hour.
	Flags    []string       `json:"flags,omitempty"`
	Findings []knownFinding `json:"findings,omitempty"`
}

// knownFinding is a finding whose cause has been looked for in the operator's code.
type knownFinding struct {
	// Invariants are those that it may break, and Objects path.Match patterns of what it may be
	// about. A finding that has no others is this one.
	Invariants []string `json:"invariants"`
	Objects    []string `json:"objects"`
	// Plan shows it; "" means that clean runs do.
	Plan    string  `json:"plan,omitempty"`
	Verdict verdict `json:"verdict"`
	// Source is file:line of the cause, in the pinned version. A true bug has it.
	Source string `json:"source,omitempty"`
	Reason string `json:"reason"`
}

// verdict says what a finding is.
type verdict string

const (
	trueBug  verdict = "true bug"
	byDesign verdict = "by design"
	unknown  verdict = "unknown"
)

var fileAndLine = regexp.MustCompile(`^[^:]+:[1-9][0-9]*$`)

func readKnown(file string) (k known, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return k, fmt.Errorf("reading the known findings: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &k); err != nil {
		return k, fmt.Errorf("reading %s: %w", file, err)
	}
	var errs []error
	for i, f := range k.Findings {
		if err := f.validate(); err != nil {
			errs = append(errs, fmt.Errorf("reading %s: finding %d: %w", file, i+1, err))
		}
	}
	return k, errors.Join(errs...)
}

func (f knownFinding) validate() error {
	var errs []error
	if len(f.Invariants) == 0 || len(f.Objects) == 0 {
		errs = append(errs, errors.New("invariants and objects must not be empty"))
	}
	for _, id := range f.Invariants {
		if !slices.ContainsFunc(invariant.All(), func(i invariant.Invariant) bool { return i.ID == id }) {
			errs = append(errs, fmt.Errorf("there is no invariant %q", id))
		}
	}
	for _, pattern := range f.Objects {
		if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, fmt.Errorf("the object %q is no pattern: %w", pattern, err))
		}
	}
	if !slices.Contains([]verdict{trueBug, byDesign, unknown}, f.Verdict) {
		errs = append(errs, fmt.Errorf("the verdict %q is not %q, %q or %q", f.Verdict, trueBug, byDesign, unknown))
	}
	if (f.Source != "" || f.Verdict == trueBug) && !fileAndLine.MatchString(f.Source) {
		errs = append(errs, fmt.Errorf("the source %q is not file:line, which a true bug needs", f.Source))
	}
	if f.Reason == "" {
		errs = append(errs, errors.New("it has no reason"))
	}
	return errors.Join(errs...)
}

// is reports whether a finding of the prover is this one.
func (f knownFinding) is(found report.Finding) bool {
	for _, id := range found.Invariants {
		if !slices.Contains(f.Invariants, id) {
			return false
		}
	}
	for _, object := range found.Objects {
		if !slices.ContainsFunc(f.Objects, func(pattern string) bool {
			ok, err := path.Match(pattern, object)
			return err == nil && ok
		}) {
			return false
		}
	}
	return true
}

// difference is what a run found beside the known findings, and which of them it did not find.
type difference struct {
	unknown  []report.Finding
	vanished []knownFinding
}

func compare(k known, found []report.Finding) (d difference) {
	seen := make([]bool, len(k.Findings))
	for _, f := range found {
		at := slices.IndexFunc(k.Findings, func(known knownFinding) bool { return known.is(f) })
		if at < 0 {
			d.unknown = append(d.unknown, f)
			continue
		}
		seen[at] = true
	}
	for i, f := range k.Findings {
		if !seen[i] {
			d.vanished = append(d.vanished, f)
		}
	}
	return d
}

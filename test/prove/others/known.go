// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
)

// known is a file known.yaml.
type known struct {
	// Version is that of a program which make builds for other purposes. The operator has no go.mod then.
	Version string `json:"version,omitempty"`
	// Flags select the plans, so that all operators take at most an hour.
	Flags    []string       `json:"flags,omitempty"`
	Findings []knownFinding `json:"findings,omitempty"`
}

// knownFinding is a finding whose cause is known.
type knownFinding struct {
	// Violations are the possible ones: the invariant, ": ", and the signature. The wildcard
	// matches any text.
	Violations []string `json:"violations"`
	// Objects are the possible ones, as in the prover's report or with the wildcard.
	Objects []string `json:"objects,omitempty"`
	// Plan shows it; "" means that clean runs do.
	Plan    string    `json:"plan,omitempty"`
	Verdict diagnosis `json:"verdict"`
	// Source is file:line of the cause, in the pinned version. A true bug has it.
	Source string `json:"source,omitempty"`
	Reason string `json:"reason"`
}

// diagnosis classifies a known finding.
type diagnosis string

const (
	trueBug  diagnosis = "true bug"
	byDesign diagnosis = "by design"
	unknown  diagnosis = "unknown"
)

// wildcard is in a known violation what differs between runs, or between violations of one cause.
const wildcard = "..."

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
	if len(f.Violations) == 0 {
		errs = append(errs, errors.New("it has no violations"))
	}
	for _, known := range f.Violations {
		id, signature, _ := strings.Cut(known, ": ")
		if !slices.ContainsFunc(invariant.All(), func(i invariant.Invariant) bool { return i.Name == id }) {
			errs = append(errs, fmt.Errorf("the violation %q begins with no invariant and a colon", known))
		}
		if strings.TrimSpace(strings.ReplaceAll(signature, wildcard, "")) == "" {
			errs = append(errs, fmt.Errorf("the violation %q has no signature", known))
		}
	}
	if !slices.Contains([]diagnosis{trueBug, byDesign, unknown}, f.Verdict) {
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

// explains reports whether a violation is one of this finding.
func (f knownFinding) explains(v invariant.FoundViolation) bool {
	return slices.ContainsFunc(f.Violations, func(known string) bool { return matches(known, violationOf(v)) })
}

// violationOf returns a violation as known.yaml has it.
func violationOf(v invariant.FoundViolation) string { return v.Invariant + ": " + v.Signature }

// matches reports whether text is the pattern, with any text for each wildcard.
func matches(pattern, text string) bool {
	literal := strings.ReplaceAll(regexp.QuoteMeta(pattern), regexp.QuoteMeta(wildcard), ".*")
	return regexp.MustCompile("(?s)^" + literal + "$").MatchString(text)
}

// comparison is what a run found beside the known findings, and which of them it did not find.
type comparison struct {
	// unknown findings have only those violations that no known finding explains, or all if an
	// object is in none of the known findings that explain them.
	unknown  []report.SweepFinding
	vanished []knownFinding
}

// compare explains each violation by the first known finding that has it. What one finding of the
// prover has may be several known ones, since their violations may share an object in some runs.
func compare(k known, found []report.SweepFinding) (d comparison) {
	seen := make([]bool, len(k.Findings))
	for _, f := range found {
		var objects []string
		unexplained := slices.DeleteFunc(slices.Clone(f.Violations), func(v invariant.FoundViolation) bool {
			at := slices.IndexFunc(k.Findings, func(known knownFinding) bool { return known.explains(v) })
			if at < 0 {
				return false
			}
			seen[at] = true
			objects = append(objects, k.Findings[at].Objects...)
			return true
		})
		strange := slices.ContainsFunc(f.Objects, func(object string) bool {
			return !slices.ContainsFunc(objects, func(known string) bool { return matches(known, object) })
		})
		switch {
		case len(unexplained) > 0:
			f.Violations = unexplained
			d.unknown = append(d.unknown, f)
		case strange || len(f.Violations) == 0:
			d.unknown = append(d.unknown, f)
		}
	}
	for i, f := range k.Findings {
		if !seen[i] {
			d.vanished = append(d.vanished, f)
		}
	}
	return d
}

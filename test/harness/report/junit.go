// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/invariant"
)

// The parts of JUnit's format that machines read. Ginkgo and gotestsum have their
// own, which can only be filled by their runs.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string  `xml:"name,attr"`
	Tests     int     `xml:"tests,attr"`
	Failures  int     `xml:"failures,attr"`
	Errors    int     `xml:"errors,attr"`
	Time      float64 `xml:"time,attr"`
	Timestamp string  `xml:"timestamp,attr"`
	// Properties are the exceptions, with their reasons.
	Properties *junitProperties `xml:"properties"`
	Cases      []junitCase      `xml:"testcase"`
}

type junitProperties struct {
	All []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    float64       `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a suite for each scenario with a case for each run. A broken promise is a
// failure. A run that proves nothing is an error, because it has not passed.
func (s *Sweep) WriteJUnit(w io.Writer) error {
	var all junitSuites
	for _, o := range slices.Concat(s.Clean, s.Outcomes) {
		i := slices.IndexFunc(all.Suites, func(suite junitSuite) bool { return suite.Name == o.Scenario })
		if i < 0 {
			i = len(all.Suites)
			all.Suites = append(all.Suites,
				junitSuite{Name: o.Scenario, Timestamp: s.Began.UTC().Format(time.RFC3339), Properties: s.exceptions()})
		}
		suite, c := &all.Suites[i], junitCase{Name: cmp.Or(o.Plan, o.Name), Class: o.Scenario, Time: o.Took.Seconds()}
		suite.Tests++
		suite.Time += c.Time
		message := &junitMessage{Message: conditionOf(o.Result), Type: string(o.Result), Text: describeOutcome(o)}
		switch o.Result {
		case invariant.Held, invariant.NotApplicable:
		case invariant.Broken:
			c.Failure = message
			suite.Failures++
		default:
			c.Error = message
			suite.Errors++
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("writing JUnit: %w", err)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// exceptions returns the exceptions as properties, or nil if there are none.
func (s *Sweep) exceptions() *junitProperties {
	if len(s.Except) == 0 {
		return nil
	}
	p := &junitProperties{}
	for _, e := range s.Except {
		p.All = append(p.All, junitProperty{"except " + e.Invariant, e.Reason})
	}
	return p
}

// describeOutcome lists the promises that did not hold, and how to repeat the run.
func describeOutcome(o invariant.Outcome) string {
	var lines []string
	for _, f := range o.Findings {
		lines = append(lines, "finding: "+f.String())
	}
	for _, v := range o.Verdicts {
		if v.Result != invariant.Held {
			lines = append(lines, v.String())
		}
	}
	for _, f := range o.Faults {
		lines = append(lines, fmt.Sprintf("fault: %s (happened %d times)", f, f.Happened))
	}
	return strings.Join(append(lines, "again: "+o.Replay), "\n")
}

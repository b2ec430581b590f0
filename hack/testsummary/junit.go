package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// totals are the results of one run or of all.
type totals struct {
	passed          int
	failures, skips []string // names, and for skips the reason
}

func (t totals) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, len(t.failures), len(t.skips))
}

func (t totals) plus(o totals) totals {
	return totals{t.passed + o.passed, append(t.failures, o.failures...), append(t.skips, o.skips...)}
}

type testSuite struct {
	Name    string     `xml:"name,attr"`
	Seconds float64    `xml:"time,attr"`
	Cases   []testCase `xml:"testcase"`
}

type testCase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Failure *message `xml:"failure"`
	Error   *message `xml:"error"`
	Skipped *message `xml:"skipped"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// read returns the totals of a run from its reports.
func read(r run, b budgets) (totals, error) {
	var t totals
	for _, report := range r.reports {
		one, err := readReport(report, b)
		if errors.Is(err, fs.ErrNotExist) {
			one.failures = []string{fmt.Sprintf("the run left no report at %s (exit status %d)", report, r.status)}
		} else if err != nil {
			return totals{}, fmt.Errorf("reading a report of run %s: %w", r.name, err)
		}
		t = t.plus(one)
	}
	switch {
	case r.status != 0 && len(t.failures) == 0:
		t.failures = append(t.failures,
			fmt.Sprintf("the run ended with exit status %d though no test of its report failed", r.status))
	case t.passed == 0 && len(t.failures) == 0:
		t.failures = append(t.failures, "no test passed according to "+strings.Join(r.reports, ", "))
	}
	return t, nil
}

func readReport(path string, b budgets) (totals, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return totals{}, err
	}
	// Both <testsuites> and a lone <testsuite> occur as the root.
	var report struct {
		Suites []testSuite `xml:"testsuite"`
		testSuite
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		return totals{}, fmt.Errorf("parsing %s: %w", path, err)
	}
	t := count(report.Cases)
	for _, suite := range report.Suites {
		t = t.plus(count(suite.Cases))
	}
	if len(report.Suites) == 0 {
		report.Suites = []testSuite{report.testSuite}
	}
	t.failures = append(t.failures, b.exceeded(report.Suites)...)
	return t, nil
}

func count(cases []testCase) totals {
	var t totals
	for _, c := range cases {
		name := strings.TrimSpace(c.Class + " " + c.Name)
		switch {
		case c.Failure != nil || c.Error != nil:
			t.failures = append(t.failures, name)
		case setUp(c.Name):
		case c.Skipped != nil:
			t.skips = append(t.skips, name+reason(c.Skipped))
		default:
			t.passed++
		}
	}
	return t
}

// setUp reports whether a case is one of Ginkgo's nodes around the specs, such as [BeforeSuite].
// They count only if they fail.
func setUp(name string) bool {
	return strings.HasPrefix(name, "[") && !strings.HasPrefix(name, "[It]")
}

func reason(m *message) string {
	text := m.Message
	if text == "" {
		text = m.Text
	}
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		return ""
	}
	return " (" + text + ")"
}

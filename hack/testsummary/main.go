// Command testsummary prints failures and skips of JUnit reports, and the totals on its last line. It
// fails if a test or a run failed, a suite exceeded its budget, or a report is missing or has no test.
//
//	testsummary unit:0:junit-unit.xml integration:1:junit-tenant.xml:junit-manager.xml
//
// Each argument is a run: its name, its exit status and its reports.
package main

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed budgets.yaml
var budgetsFile []byte

func main() {
	if !summarize(os.Stdout, os.Args[1:]) {
		os.Exit(1)
	}
}

type suite struct {
	Name    string  `xml:"name,attr"`
	Seconds float64 `xml:"time,attr"`
	Cases   []struct {
		Name    string    `xml:"name,attr"`
		Class   string    `xml:"classname,attr"`
		Failure *struct{} `xml:"failure"`
		Error   *struct{} `xml:"error"`
		Skipped *struct {
			Message string `xml:"message,attr"`
		} `xml:"skipped"`
	} `xml:"testcase"`
}

// summarize writes the summary of runs and reports whether all of them passed.
func summarize(w io.Writer, runs []string) bool {
	t := totals{budgets: map[string]float64{}}
	if err := yaml.UnmarshalStrict(budgetsFile, &t.budgets); err != nil {
		t.failures = append(t.failures, "budgets.yaml: "+err.Error())
	}
	for _, run := range runs {
		parts := strings.Split(run+"::", ":")
		name, status := parts[0], parts[1]
		p, f, s := t.passed, len(t.failures), len(t.skips)
		for _, path := range parts[2 : len(parts)-2] {
			suites, err := read(path)
			if err != nil {
				t.failures = append(t.failures, fmt.Sprintf("%s: %v", name, err))
			}
			for _, suite := range suites {
				t.add(name, suite)
			}
		}
		if len(t.failures) == f && (status != "0" || t.passed == p) {
			t.failures = append(t.failures, fmt.Sprintf("%s: exit status %s, and %d tests passed", name, status, t.passed-p))
		}
		fmt.Fprintf(w, "%-14s %d passed, %d failed, %d skipped\n", name, t.passed-p, len(t.failures)-f, len(t.skips)-s)
	}
	for _, line := range t.failures {
		fmt.Fprintln(w, "FAILED  ", line)
	}
	for _, line := range t.skips {
		fmt.Fprintln(w, "skipped ", line)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", t.passed, len(t.failures), len(t.skips))
	return len(t.failures) == 0 && t.passed > 0
}

// totals are those of all runs so far.
type totals struct {
	budgets         map[string]float64 // seconds by suite
	passed          int
	failures, skips []string
}

// add counts a suite of a run.
func (t *totals) add(run string, s suite) {
	budget, ok := t.budgets[s.Name]
	if !ok {
		budget = t.budgets["default"]
	}
	if s.Seconds > budget {
		t.failures = append(t.failures, fmt.Sprintf("%s: suite %s took %.0f s of %.0f", run, s.Name, s.Seconds, budget))
	}
	for _, c := range s.Cases {
		// Ginkgo's nodes around the specs, such as [BeforeSuite], count only if they fail.
		spec := !strings.HasPrefix(c.Name, "[") || strings.HasPrefix(c.Name, "[It]")
		switch {
		case c.Failure != nil || c.Error != nil:
			t.failures = append(t.failures, run+": "+c.Class+" "+c.Name)
		case spec && c.Skipped != nil:
			t.skips = append(t.skips, run+": "+c.Class+" "+c.Name+" ("+c.Skipped.Message+")")
		case spec:
			t.passed++
		}
	}
}

// read returns the suites of a report.
func read(path string) ([]suite, error) {
	var report struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = xml.Unmarshal(data, &report)
	}
	if err != nil {
		return nil, fmt.Errorf("reading report %s: %w", path, err)
	}
	return report.Suites, nil
}

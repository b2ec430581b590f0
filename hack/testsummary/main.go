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
	budgets := map[string]float64{}
	var failures, skips []string
	if err := yaml.UnmarshalStrict(budgetsFile, &budgets); err != nil {
		failures = append(failures, "budgets.yaml: "+err.Error())
	}
	passed := 0
	for _, run := range runs {
		parts := strings.Split(run+"::", ":")
		name, status := parts[0], parts[1]
		p, f, s := passed, len(failures), len(skips)
		for _, path := range parts[2 : len(parts)-2] {
			suites, err := read(path)
			if err != nil {
				failures = append(failures, fmt.Sprintf("%s: %v", name, err))
			}
			for _, suite := range suites {
				budget, ok := budgets[suite.Name]
				if !ok {
					budget = budgets["default"]
				}
				if suite.Seconds > budget {
					failures = append(failures, fmt.Sprintf("%s: suite %s took %.0f s of %.0f", name, suite.Name, suite.Seconds, budget))
				}
				for _, c := range suite.Cases {
					// Ginkgo's nodes around the specs, such as [BeforeSuite], count only if they fail.
					spec := !strings.HasPrefix(c.Name, "[") || strings.HasPrefix(c.Name, "[It]")
					switch {
					case c.Failure != nil || c.Error != nil:
						failures = append(failures, name+": "+c.Class+" "+c.Name)
					case spec && c.Skipped != nil:
						skips = append(skips, name+": "+c.Class+" "+c.Name+" ("+c.Skipped.Message+")")
					case spec:
						passed++
					}
				}
			}
		}
		if len(failures) == f && (status != "0" || passed == p) {
			failures = append(failures, fmt.Sprintf("%s: exit status %s, and %d tests passed", name, status, passed-p))
		}
		fmt.Fprintf(w, "%-14s %d passed, %d failed, %d skipped\n", name, passed-p, len(failures)-f, len(skips)-s)
	}
	for _, line := range failures {
		fmt.Fprintln(w, "FAILED  ", line)
	}
	for _, line := range skips {
		fmt.Fprintln(w, "skipped ", line)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, len(failures), len(skips))
	return len(failures) == 0 && passed > 0
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

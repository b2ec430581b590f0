// Command testsummary prints failures and skips of JUnit reports, and the totals on its last line. It
// fails if a test or a run failed, a suite exceeded its budget, or a report is missing or has no test.
//
//	testsummary unit:0:junit-unit.xml integration:1:junit-tenant.xml:junit-manager.xml
//
// Each argument is a run: its name, its exit status and its reports.
package main

import (
	"cmp"
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
	if err := yaml.UnmarshalStrict(budgetsFile, &budgets); err != nil {
		panic(err)
	}
	passed, failures, skips := 0, []string{}, []string{}
	for _, run := range runs {
		parts := strings.Split(run, ":")
		name, p, f, s := parts[0], passed, len(failures), len(skips)
		fail := func(format string, args ...any) {
			failures = append(failures, fmt.Sprintf("FAILED   "+name+": "+format+"\n", args...))
		}
		for _, path := range parts[2:] {
			var report struct {
				XMLName xml.Name `xml:"testsuites"`
				Suites  []suite  `xml:"testsuite"`
			}
			data, err := os.ReadFile(path)
			if err == nil {
				err = xml.Unmarshal(data, &report)
			}
			if err != nil {
				fail("reading report %s: %v", path, err)
			}
			for _, suite := range report.Suites {
				if budget := cmp.Or(budgets[suite.Name], budgets["default"]); suite.Seconds > budget {
					fail("suite %s took %.0f s of %.0f", suite.Name, suite.Seconds, budget)
				}
				n, failed, skipped := suite.count(name)
				passed, failures, skips = passed+n, append(failures, failed...), append(skips, skipped...)
			}
		}
		if len(failures) == f && (parts[1] != "0" || passed == p) {
			fail("exit status %s, and %d tests passed", parts[1], passed-p)
		}
		fmt.Fprintf(w, "%-14s %d passed, %d failed, %d skipped\n", name, passed-p, len(failures)-f, len(skips)-s)
	}
	fmt.Fprintf(w, "%s%d passed, %d failed, %d skipped\n",
		strings.Join(append(failures, skips...), ""), passed, len(failures), len(skips))
	return len(failures) == 0 && passed > 0
}

// count returns what a suite of a run adds. Ginkgo's nodes around the specs, such as [BeforeSuite],
// count only if they fail.
func (s suite) count(run string) (passed int, failures, skips []string) {
	for _, c := range s.Cases {
		spec := !strings.HasPrefix(c.Name, "[") || strings.HasPrefix(c.Name, "[It]")
		switch {
		case c.Failure != nil || c.Error != nil:
			failures = append(failures, fmt.Sprintf("FAILED   %s: %s %s\n", run, c.Class, c.Name))
		case spec && c.Skipped != nil:
			skips = append(skips, fmt.Sprintf("skipped  %s: %s %s (%s)\n", run, c.Class, c.Name, c.Skipped.Message))
		case spec:
			passed++
		}
	}
	return passed, failures, skips
}

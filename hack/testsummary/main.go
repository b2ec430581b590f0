// SPDX-License-Identifier: Apache-2.0

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

	"github.com/onsi/ginkgo/v2/reporters"
	"sigs.k8s.io/yaml"
)

//go:embed budgets.yaml
var budgetsFile []byte

func main() {
	if !summarize(os.Stdout, os.Args[1:]) {
		os.Exit(1)
	}
}

// summarize writes the summary of runs and reports whether all of them passed. Ginkgo's nodes around the
// specs, such as [BeforeSuite], count only if they fail.
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
		for _, suite := range suites(parts[2:], fail) {
			if budget := cmp.Or(budgets[suite.Name], budgets["default"]); suite.Time > budget {
				fail("suite %s took %.0f s of %.0f", suite.Name, suite.Time, budget)
			}
			for _, c := range suite.TestCases {
				isSpec := !strings.HasPrefix(c.Name, "[") || strings.HasPrefix(c.Name, "[It]")
				switch {
				case c.Failure != nil || c.Error != nil:
					fail("%s %s", c.Classname, c.Name)
				case isSpec && c.Skipped != nil:
					skips = append(skips, fmt.Sprintf("skipped  %s: %s %s (%s)\n", name, c.Classname, c.Name, c.Skipped.Message))
				case isSpec:
					passed++
				}
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

// suites returns the suites of reports. fail is called for each report that cannot be read.
func suites(reports []string, fail func(string, ...any)) (all []reporters.JUnitTestSuite) {
	for _, path := range reports {
		var report reporters.JUnitTestSuites
		data, err := os.ReadFile(path)
		if err = cmp.Or(err, xml.Unmarshal(data, &report)); err != nil {
			fail("reading report %s: %v", path, err)
		}
		all = append(all, report.TestSuites...)
	}
	return all
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// As gotestsum writes it.
const unitReport = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1">
  <testsuite name="leasehold.dev/runners" tests="3">
    <testcase classname="runners" name="TestTicks" time="0.1"></testcase>
    <testcase classname="runners" name="TestStops" time="0.1"><failure message="Failed">it did not</failure></testcase>
    <testcase classname="runners" name="TestLater" time="0.0"><skipped message="needs a thing
      that is not there"></skipped></testcase>
  </testsuite>
</testsuites>`

// As Ginkgo writes it.
const specReport = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4">
  <testsuite name="tenant" tests="4">
    <testcase name="[SynchronizedBeforeSuite]" classname="tenant" status="passed"></testcase>
    <testcase name="[It] Tenant gets its namespaces" classname="tenant" status="passed"></testcase>
    <testcase name="[It] Tenant lets go" classname="tenant" status="passed"></testcase>
    <testcase name="[ReportAfterSuite] x" classname="tenant" status="skipped"><skipped message="skipped"></skipped></testcase>
  </testsuite>
</testsuites>`

const brokenSetUp = `<testsuite name="tenant"><testcase name="[BeforeSuite]" classname="tenant"><error message="no etcd"/></testcase></testsuite>`

func TestSummarize(t *testing.T) {
	for name, tc := range map[string]struct {
		runs   []string // name:status:contents; no contents, no report
		want   string
		failed bool
	}{
		"all pass": {
			runs: []string{"integration:0:" + specReport},
			want: "integration    2 passed, 0 failed, 0 skipped\n" +
				"2 passed, 0 failed, 0 skipped\n",
		},
		"one failed, one skipped": {
			runs: []string{"unit:1:" + unitReport, "integration:0:" + specReport},
			want: "unit           1 passed, 1 failed, 1 skipped\n" +
				"integration    2 passed, 0 failed, 0 skipped\n" +
				"FAILED   unit: runners TestStops\n" +
				"skipped  unit: runners TestLater (needs a thing that is not there)\n" +
				"3 passed, 1 failed, 1 skipped\n",
			failed: true,
		},
		"failed outside of a test": {
			runs: []string{"integration:2:" + specReport},
			want: "integration    2 passed, 1 failed, 0 skipped\n" +
				"FAILED   integration: the run ended with exit status 2 though no test of its report failed\n" +
				"2 passed, 1 failed, 0 skipped\n",
			failed: true,
		},
		"failed before the first test": {
			runs: []string{"integration:1:" + brokenSetUp},
			want: "integration    0 passed, 1 failed, 0 skipped\n" +
				"FAILED   integration: tenant [BeforeSuite]\n" +
				"0 passed, 1 failed, 0 skipped\n",
			failed: true,
		},
		"no report": {
			runs: []string{"unit:0:"},
			want: "unit           0 passed, 1 failed, 0 skipped\n" +
				"FAILED   unit: the run left no report at REPORT (exit status 0)\n" +
				"0 passed, 1 failed, 0 skipped\n",
			failed: true,
		},
		"nothing ran": {
			runs: []string{"unit:0:<testsuites></testsuites>"},
			want: "unit           0 passed, 1 failed, 0 skipped\n" +
				"FAILED   unit: no test passed according to REPORT\n" +
				"0 passed, 1 failed, 0 skipped\n",
			failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var args []string
			for i, r := range tc.runs {
				parts := strings.SplitN(r, ":", 3)
				report := filepath.Join(dir, fmt.Sprintf("%d.xml", i))
				if parts[2] != "" {
					if err := os.WriteFile(report, []byte(parts[2]), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				args = append(args, parts[0]+":"+parts[1]+":"+report)
			}
			var out strings.Builder
			err := summarize(&out, args)
			if errors.Is(err, errFailed) != tc.failed || (err != nil && !tc.failed) {
				t.Errorf("error is %v, want failure: %t", err, tc.failed)
			}
			got := strings.ReplaceAll(out.String(), filepath.Join(dir, "0.xml"), "REPORT")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

// A run may leave several reports; its status is held against all of them.
func TestSeveralReportsOfOneRun(t *testing.T) {
	dir := t.TempDir()
	unit, specs := filepath.Join(dir, "unit.xml"), filepath.Join(dir, "specs.xml")
	for path, contents := range map[string]string{unit: unitReport, specs: specReport} {
		if err := os.WriteFile(path, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := summarize(&out, []string{"unit:1:" + unit + ":" + specs}); !errors.Is(err, errFailed) {
		t.Errorf("error is %v, want %v", err, errFailed)
	}
	if want := "3 passed, 1 failed, 1 skipped\n"; !strings.HasSuffix(out.String(), "\n"+want) {
		t.Errorf("the last line is not %q:\n%s", want, &out)
	}
}

func TestSummarizeRefusesNonsense(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.xml")
	if err := os.WriteFile(garbage, []byte("not xml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no runs":            {},
		"no status":          {"unit:" + garbage},
		"status is no digit": {"unit:x:" + garbage},
		"report is no XML":   {"unit:0:" + garbage},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := summarize(&out, args); err == nil || errors.Is(err, errFailed) {
				t.Errorf("error is %v, want one about the arguments; printed:\n%s", err, &out)
			}
		})
	}
}

func TestBudgets(t *testing.T) {
	b, err := readBudgets(budgetsFile)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "junit.xml")
	const slow = `<testsuites time="9000"><testsuite name="tenant" time="601"><testcase name="a"/></testsuite>` +
		`<testsuite name="storagebucket" time="601"><testcase name="b"/></testsuite><testsuite name="other" time="601.2"><testcase name="c"/></testsuite></testsuites>`
	for text, want := range map[string][]string{
		slow: {
			"suite tenant took 601 s, its budget is 600 s (hack/testsummary/budgets.yaml)",
			"suite other took 601 s, its budget is 600 s (hack/testsummary/budgets.yaml)",
		},
		`<testsuite name="tenant" time="601"><testcase name="a"/></testsuite>`: {"suite tenant took 601 s, its budget is 600 s (hack/testsummary/budgets.yaml)"},
		unitReport: {"runners TestStops"},
	} {
		if err := os.WriteFile(report, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readReport(report, b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.failures); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"tenant: 3", "default: soon", "default: -1"} {
		if _, err := readBudgets([]byte(text)); err == nil {
			t.Errorf("%s: want an error", text)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

const (
	begin, end = `<testsuites><testsuite name="storagebucket" time="800">`, `</testsuite></testsuites>`
	good       = begin + `<testcase name="[BeforeSuite]"/><testcase name="[It] a"/>` + end
	skip       = begin + `<testcase name="b"/><testcase classname="k" name="c"><skipped message="m"/></testcase>` + end
	bad        = begin + `<testcase classname="k" name="[BeforeSuite]"><error/></testcase>` + end
	late       = `<testsuites><testsuite name="other" time="601"><testcase name="b"/>` + end
)

func TestSummarize(t *testing.T) {
	for report, want := range map[string]string{
		"0" + good:       "u              1 passed, 0 failed, 0 skipped\n1 passed, 0 failed, 0 skipped\n",
		"0" + skip:       "skipped  u: k c (m)\n1 passed, 0 failed, 1 skipped\n",
		"1" + bad:        "FAILED   u: k [BeforeSuite]\n0 passed, 1 failed, 0 skipped\n",
		"0" + late:       "FAILED   u: suite other took 601 s of 600\n1 passed, 1 failed, 0 skipped\n",
		"2" + good:       "FAILED   u: exit status 2, and 1 tests passed\n1 passed, 1 failed, 0 skipped\n",
		"0<testsuites/>": "FAILED   u: exit status 0, and 0 tests passed\n0 passed, 1 failed, 0 skipped\n",
		"0no XML":        "EOF\n0 passed, 1 failed, 0 skipped\n",
		"0":              "no such file or directory\n0 passed, 1 failed, 0 skipped\n",
	} {
		path := t.TempDir() + "/junit.xml"
		if report != "0" && os.WriteFile(path, []byte(report[1:]), 0o600) != nil {
			t.Fatal("writing a report")
		}
		var out strings.Builder
		passed := summarize(&out, []string{"u:" + report[:1] + ":" + path})
		if passed != strings.Contains(want, " 0 failed") || !strings.HasSuffix(out.String(), want) {
			t.Errorf("%s: passed is %t, want the end of\n%s to be\n%s", report, passed, &out, want)
		}
	}
}

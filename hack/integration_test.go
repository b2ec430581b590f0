// SPDX-License-Identifier: Apache-2.0

// Package hack has the tests of the scripts in this folder and in .ci. Fake programs replace
// docker, go and runc.
package hack

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The run fails if one suite fails. All suites run, and their output is printed.
func TestIntegration(t *testing.T) {
	fakes := map[string]string{"go": `echo "$@"`, "ginkgo": `for last; do :; done
[[ -L $last ]] && echo "$2 $last"
[[ $last != *broken.test ]]`}
	for suites, ok := range map[string]bool{"broken one two": false, "one two": true} {
		got := run(t, `mkdir -p $DIR/hack $DIR/test/integration/{broken,one,two} && cp integration.sh $DIR/hack &&
GO=go PROGRAMS=$DIR/bin $DIR/hack/integration.sh ginkgo $DIR/artifacts 2 "$SUITES" --flag`, fakes,
			"DIR="+t.TempDir(), "SUITES="+suites)
		if got.ok != ok {
			t.Errorf("%s: %+v, want ok %t", suites, got, ok)
		}
		built := "./test/integration/" + strings.ReplaceAll(suites, " ", " ./test/integration/")
		if !strings.Contains(got.stdout, built) {
			t.Errorf("%s: %q lacks %q", suites, got.stdout, built)
		}
		for suite := range strings.FieldsSeq(suites) {
			if line := "--flag test/integration/" + suite + "/" + suite + ".test"; !strings.Contains(got.stdout, line) {
				t.Errorf("%s: %q lacks %q", suites, got.stdout, line)
			}
		}
	}
}

// A focus that no suite has is a mistake, and one that some suites lack is not.
func TestIntegration_NoSpecRuns(t *testing.T) {
	for flags, ok := range map[string]bool{"--focus=typo": false, "--focus=right": true, "--procs=3": true} {
		got := run(t, `mkdir -p $DIR/hack $DIR/test/integration/{one,two} && cp integration.sh $DIR/hack &&
GO=true PROGRAMS=$DIR/bin $DIR/hack/integration.sh ginkgo $DIR/artifacts 2 "one two" $FLAGS`,
			map[string]string{"ginkgo": `for flag; do case $flag in --output-dir=*) dir=${flag#*=} ;; --junit-report=*) report=${flag#*=} ;; esac; done
status=skipped
if [[ $* != *typo* && $report == *two.xml ]]; then status=passed; fi
echo "<testcase name=\"x\" status=\"$status\">" >"$dir/$report"`}, "DIR="+t.TempDir(), "FLAGS="+flags)
		if got.ok != ok || ok == strings.Contains(got.stderr, "no spec of one two ran; correct GINKGO_FLAGS ("+flags+")") {
			t.Errorf("%s: %+v, want ok %t", flags, got, ok)
		}
	}
}

// make integration runs only the suites that the Makefile names.
func TestIntegration_allSuites(t *testing.T) {
	found, err := filepath.Glob("../test/integration/*/suite_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range found {
		want = append(want, filepath.Base(filepath.Dir(f)))
	}
	named := strings.Fields(run(t, `sed -nE 's/^(SLOW_)?SUITES *[?:]= //p' ../Makefile`, nil).stdout)
	slices.Sort(named)
	if diff := cmp.Diff(want, named); len(found) == 0 || diff != "" {
		t.Errorf("the suites (-folders +Makefile):\n%s", diff)
	}
}

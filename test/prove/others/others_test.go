// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/report"
)

const (
	causes = `
  - 'end-state: at "..." jobs.batch default/{backup}-* ## does not exist'
  - 'single-lifecycle: jobs.batch default/{backup}-* was created # times, in clean runs # times'`
	knownBug = `
findings:
- violations:` + causes + `
  objects: ["jobs.batch default/{backup}-*", "backups.example.com default/{backup}"]
  plan: life:lost-response:POST:/apis/batch/v1/namespaces/default/jobs:1
  verdict: true bug
  source: internal/job.go:41
  reason: the job is created twice
`
	jobs     = "jobs.batch default/{backup}-*"
	missing  = `at "made" jobs.batch default/{backup}-* ## does not exist`
	madeMore = "jobs.batch default/{backup}-* was created # times, in clean runs # times"
)

func TestCheck_KnownFindingsAreValid(t *testing.T) {
	NewWithT(t).Expect(check(".")).To(Succeed())
}

func TestReadKnown(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"valid":                {"", "", ""},
		"no source, by design": {"true bug\n  source: internal/job.go:41", "by design", ""},
		"unknown field":        {"reason:", "because:", `unknown field "because"`},
		"unknown invariant":    {"single-lifecycle:", "no-such-invariant:", "finding 1: the violation \"no-such-invariant: jobs.batch"},
		"no invariant":         {"single-lifecycle: jobs", "jobs", "begins with no invariant and a colon"},
		"no signature": {"'single-lifecycle: jobs.batch default/{backup}-* was created # times, in clean runs # times'",
			"'single-lifecycle'", `the violation "single-lifecycle" has no signature`},
		"any signature": {"'single-lifecycle: jobs.batch default/{backup}-* was created # times, in clean runs # times'",
			"'single-lifecycle: ... ...'", "has no signature"},
		"no violation":              {causes, " []", "it has no violations"},
		"unknown verdict":           {"true bug", "bug", `the verdict "bug" is not "true bug", "by design" or "unknown"`},
		"true bug without a source": {"source: internal/job.go:41", "", `the source "" is not file:line`},
		"source without a line":     {"job.go:41", "job.go", `the source "internal/job.go" is not file:line`},
		"source that is not file:line": {"true bug\n  source: internal/job.go:41", "unknown\n  source: job.go:0",
			"is not file:line"},
		"no reason": {"reason: the job is created twice", "", "it has no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			file := filepath.Join(t.TempDir(), "known.yaml")
			g.Expect(os.WriteFile(file, []byte(strings.Replace(knownBug, tc.from, tc.to, 1)), 0o600)).To(Succeed())
			_, err := readKnown(file)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(tc.want), ContainSubstring(file))))
		})
	}
}

func violation(id, signature string) invariant.FoundViolation {
	return invariant.FoundViolation{Invariant: id, Violation: invariant.Violation{Signature: signature}}
}

func TestCompare(t *testing.T) {
	const backup = "backups.example.com default/{backup}"
	lost, twice := violation("end-state", missing), violation("single-lifecycle", madeMore)
	other := violation("single-lifecycle", "jobs.batch default/{backup}-* was deleted # times, in clean runs # times")
	finding := func(objects []string, violations ...invariant.FoundViolation) report.SweepFinding {
		return report.SweepFinding{Finding: invariant.Finding{Objects: objects, Violations: violations}}
	}
	for name, tc := range map[string]struct {
		found         []report.SweepFinding
		new, vanished int
	}{
		"none":                     {nil, 0, 1},
		"the known one":            {[]report.SweepFinding{finding([]string{jobs}, lost, twice)}, 0, 0},
		"by one of its violations": {[]report.SweepFinding{finding([]string{jobs, backup}, twice)}, 0, 0},
		"at another checkpoint": {[]report.SweepFinding{finding([]string{jobs},
			violation("end-state", strings.Replace(missing, "made", "gone", 1)))}, 0, 0},
		"in two parts": {[]report.SweepFinding{finding([]string{jobs}, lost), finding([]string{jobs}, twice)},
			0, 0},
		"no object":                      {[]report.SweepFinding{finding(nil, twice)}, 0, 0},
		"another cause, no object":       {[]report.SweepFinding{finding(nil, other)}, 1, 1},
		"another cause, the same object": {[]report.SweepFinding{finding([]string{jobs}, other)}, 1, 1},
		"another cause too":              {[]report.SweepFinding{finding([]string{jobs}, twice, other)}, 1, 0},
		"the cause of another invariant": {[]report.SweepFinding{finding([]string{jobs}, violation("finalizer-order", madeMore))}, 1, 1},
		"about another object": {[]report.SweepFinding{finding([]string{backup},
			violation("single-lifecycle", "backups.example.com default/{backup} was created # times, in clean runs # times"))}, 1, 1},
		"another object too": {[]report.SweepFinding{finding([]string{jobs, "configmaps default/a"}, lost)}, 1, 0},
		"the known one and another": {[]report.SweepFinding{finding([]string{jobs}, lost), finding([]string{jobs}, other)},
			1, 0},
		"a text that has the known one": {[]report.SweepFinding{finding([]string{jobs}, violation("single-lifecycle", "x"+madeMore),
			violation("single-lifecycle", madeMore+"x"))}, 1, 1},
		"a name that the pattern matches": {[]report.SweepFinding{finding([]string{"jobs.batch default/{backup}-x"}, lost)}, 1, 0},
		"nothing but an object":           {[]report.SweepFinding{finding([]string{jobs})}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			file := filepath.Join(t.TempDir(), "known.yaml")
			g.Expect(os.WriteFile(file, []byte(knownBug), 0o600)).To(Succeed())
			k, err := readKnown(file)
			g.Expect(err).NotTo(HaveOccurred())
			d := compare(k, tc.found)
			g.Expect(d.unknown).To(HaveLen(tc.new))
			g.Expect(d.vanished).To(HaveLen(tc.vanished))
		})
	}
}

func TestCompare_OneFindingOfTwoCauses(t *testing.T) {
	g := NewWithT(t)
	k := known{Findings: []knownFinding{
		{Violations: []string{"single-writer: a was written"}, Objects: []string{"a"}},
		{Violations: []string{"leader-only-calls: call for ..."}},
		{Violations: []string{"truthful-status: b went back"}, Objects: []string{"b"}},
	}}
	found := report.SweepFinding{Finding: invariant.Finding{Objects: []string{"a"}, Violations: []invariant.FoundViolation{
		violation("single-writer", "a was written"), violation("leader-only-calls", "call for a"),
	}}}
	d := compare(k, []report.SweepFinding{found})
	g.Expect(d.unknown).To(BeEmpty())
	g.Expect(d.vanished).To(Equal(k.Findings[2:]))
	k.Findings[0].Objects = []string{"...a"}
	g.Expect(compare(k, []report.SweepFinding{found}).unknown).To(BeEmpty(), "the object has the pattern")
	k.Findings[0].Objects = []string{"b..."}
	g.Expect(compare(k, []report.SweepFinding{found}).unknown).To(HaveLen(1), "the object does not have the pattern")
	k.Findings[0].Objects = []string{"a"}
	unlisted := found
	unlisted.Violations = append(slices.Clone(found.Violations),
		violation("leader-only-calls", "call against a"))
	d = compare(k, []report.SweepFinding{unlisted})
	g.Expect(d.unknown).To(HaveLen(1))
	g.Expect(d.unknown[0].Violations).To(Equal(unlisted.Violations[2:]), "what is known already is not reported")
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"a...", "abc", true},
		{"...c", "abc", true},
		{"a...c", "ac", true},
		{"a...b...c", "a1b2c", true},
		{"a...b...c", "a1c2b", false},
		{"ab...bc", "abc", false}, // both ends need a text of their own
		{"a...b...b", "ab", false},
		{"{x}-*[1].# ...", "{x}-*[1].# is there", true}, // nothing else is a pattern
		{"*", "a", false},
	} {
		if got := matches(tc.pattern, tc.text); got != tc.want {
			t.Errorf("matches(%q, %q) = %t", tc.pattern, tc.text, got)
		}
	}
}

// newSuite creates a folder with an operator whose module needs no download, and a fake prover that
// reports findings. It returns the arguments for both.
func newSuite(t *testing.T, findings string, exit int) []string {
	t.Helper()
	g := NewWithT(t)
	root := t.TempDir()
	write := func(path, content string, mode os.FileMode) {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(root, path), []byte(content), mode)).To(Succeed())
	}
	write("source/go.mod", "module example.com/archiver\n\ngo 1.26\n", 0o600)
	write("source/config/crd.yaml", "kind: CustomResourceDefinition\n", 0o600)
	write("source/main.go", "package main\n\nfunc main() {}\n", 0o600)
	write("others/archiver/go.mod", `module leasehold.dev/test/prove/others/archiver

go 1.26

require example.com/archiver v1.2.3

tool example.com/archiver

replace example.com/archiver => ../../source
`, 0o600)
	write("others/archiver/known.yaml", "flags: [--smoke]\n"+knownBug, 0o600)
	write("others/archiver/subject.yaml", "name: archiver\n", 0o600)
	write("prove", fmt.Sprintf(`#!/bin/sh
echo "arguments: $*"
test -x %[1]s/bin/archiver/archiver && test -f %[1]s/bin/archiver/modules/archiver/config/crd.yaml || exit 2
mkdir -p %[1]s/artifacts/archiver
cat >%[1]s/artifacts/archiver/summary.json <<'JSON'
{"plans": 3, "results": {"held": 2, "broken": 1}, "findings": %[2]s}
JSON
exit %[3]d
`, root, findings, exit), 0o700)
	return []string{
		"--folder", filepath.Join(root, "others"), "--bin", filepath.Join(root, "bin"), "--dir",
		filepath.Join(root, "artifacts"),
		"--prover", filepath.Join(root, "prove"),
	}
}

func TestOthers(t *testing.T) {
	const found = `[{"invariants": ["single-lifecycle"], "objects": ["` + jobs +
		`"], "violations": [{"invariant": "single-lifecycle", "signature": "` + madeMore +
		`"}], "runs": [{"replay": "make prove PLAN=known"}]}`
	for name, tc := range map[string]struct {
		findings string
		exit     int
		code     int
		want     []string
	}{
		"known": {found + "]", 1, 0, []string{
			"--seed 1 --smoke", "example.com/archiver v1.2.3, 3 plans: 2 held, 1 broken, 0 inconclusive, 0 void; 1 findings, 0 new, 0 vanished",
		}},
		"new": {found + `, {"invariants": ["external-ownership"], "objects": ["` + jobs +
			`"], "violations": [{"invariant": "external-ownership", "message": "a was lost", "signature": "it was lost"}],
			"runs": [{"replay": "make prove PLAN=new"}]}]`, 1, 1, []string{"new finding: external-ownership", "external-ownership: a was lost",
			`in known.yaml: "external-ownership: it was lost"`, "again: make prove PLAN=new", "known.yaml", "2 findings, 1 new, 0 vanished"}},
		"vanished": {"[]", 0, 1, []string{
			`vanished finding: ["end-state: at`, "the job is created twice",
			"plan life:lost-response:POST:/apis/batch/v1/namespaces/default/jobs:1", "0 findings, 0 new, 1 vanished",
		}},
		"undone": {found + "]", 2, 2, []string{"proving archiver: running the prover: exit status 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var output strings.Builder
			err := execute(t.Context(), newSuite(t, tc.findings, tc.exit), &output)
			g.Expect(program.ExitCode(err, errDifferent)).To(Equal(tc.code), "%v", err)
			for _, want := range tc.want {
				g.Expect(output.String()).To(ContainSubstring(want))
			}
		})
	}
}

// A program that make builds for other purposes needs no go.mod, and one that is built from its repository is skipped.
func TestLoad_WithoutModule(t *testing.T) {
	g := NewWithT(t)
	folder := newSuite(t, "[]", 0)[1]
	g.Expect(os.Remove(filepath.Join(folder, "archiver", "go.mod"))).To(Succeed())
	_, err := load(folder)
	g.Expect(err).To(MatchError(ContainSubstring("no folder in")))
	g.Expect(os.WriteFile(filepath.Join(folder, "archiver", "known.yaml"), []byte("version: v1.2.3\n"), 0o600)).To(Succeed())
	all, err := load(folder)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(HaveLen(1))
	g.Expect(os.Mkdir(filepath.Join(folder, "unlisted"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "unlisted", "go.mod"), nil, 0o600)).To(Succeed())
	_, err = load(folder)
	g.Expect(err).To(MatchError(ContainSubstring("unlisted/known.yaml")))
	g.Expect(all[0].build(t.Context(), t.TempDir(), &strings.Builder{})).To(Equal("v1.2.3"))
}

// The version of kube-controller-manager is the one that make controlplane builds.
func TestVersion_IsThatOfTheControlPlane(t *testing.T) {
	g := NewWithT(t)
	pins, err := os.ReadFile("../../../hack/controlplane/go.mod")
	g.Expect(err).NotTo(HaveOccurred())
	k, err := readKnown("kubecontrollermanager/known.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(pins)).To(ContainSubstring(k.Version + " "))
}

// An operator without subject.yaml is described by its prepare.sh.
func TestOthers_prepares(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		want   string // in the output or the error
	}{
		"described": {"mkdir -p $1/subject && touch $1/subject/subject.yaml", "/bin/archiver/subject/subject.yaml --dir"},
		"failed":    {"exit 3", "prepare.sh: exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			args := newSuite(t, "[]", 0)
			folder := filepath.Join(args[1], "archiver")
			g.Expect(os.Remove(filepath.Join(folder, "subject.yaml"))).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(folder, "prepare.sh"), []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700)).
				To(Succeed())
			var output strings.Builder
			err := execute(t.Context(), args, &output)
			g.Expect(err).To(HaveOccurred(), "the known finding has vanished")
			g.Expect(output.String() + err.Error()).To(ContainSubstring(tc.want))
		})
	}
}

func TestOthers_reportsBadInput(t *testing.T) {
	args := newSuite(t, "[]", 0)
	folder := args[1]
	for name, tc := range map[string]struct {
		args []string
		file string // which is overwritten with content
		want string
	}{
		"no such operator":    {args: append(args, "--run=nothing"), want: `has none with "nothing" in its name`},
		"no expression":       {args: append(args, "--run=["), want: "reading --run"},
		"unknown flag":        {args: []string{"--surprise"}, want: "flag provided but not defined"},
		"no operator at all":  {args: []string{"--folder", t.TempDir()}, want: "no folder in"},
		"nothing is required": {args: args, file: "archiver/go.mod", want: "running go build"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.file != "" {
				g.Expect(os.WriteFile(filepath.Join(folder, tc.file), []byte("module leasehold.dev/x\n"), 0o600)).To(Succeed())
			}
			g.Expect(execute(t.Context(), tc.args, &strings.Builder{})).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

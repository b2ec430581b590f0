package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/internal/program"
)

const (
	knownBug = `
findings:
- invariants: [O1, O2]
  objects: ["jobs.batch default/{backup}-*", "backups.example.com default/{backup}"]
  plan: life:P3:POST:/apis/batch/v1/namespaces/default/jobs:1
  verdict: true bug
  source: internal/job.go:41
  reason: the job is created twice
`
	jobs = "jobs.batch default/{backup}-*"
)

func TestReadKnown(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"valid":                        {"", "", ""},
		"no source, by design":         {"true bug\n  source: internal/job.go:41", "by design", ""},
		"unknown field":                {"reason:", "because:", `unknown field "because"`},
		"unknown invariant":            {"[O1, O2]", "[O1, O99]", `finding 1: there is no invariant "O99"`},
		"no invariant":                 {"[O1, O2]", "[]", "invariants and objects must not be empty"},
		"no pattern":                   {"{backup}-*", "{backup}-[", "is no pattern"},
		"unknown verdict":              {"true bug", "bug", `the verdict "bug" is not "true bug", "by design" or "unknown"`},
		"true bug without a source":    {"source: internal/job.go:41", "", `the source "" is not file:line`},
		"source without a line":        {"job.go:41", "job.go", `the source "internal/job.go" is not file:line`},
		"source that is not file:line": {"true bug\n  source: internal/job.go:41", "unknown\n  source: job.go:0", "is not file:line"},
		"no reason":                    {"reason: the job is created twice", "", "it has no reason"},
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

func TestCompare(t *testing.T) {
	finding := func(objects []string, invariants ...string) report.Finding {
		return report.Finding{Finding: invariant.Finding{Invariants: invariants, Objects: objects}}
	}
	for name, tc := range map[string]struct {
		found         []report.Finding
		new, vanished int
	}{
		"none":                         {nil, 0, 1},
		"the known one":                {[]report.Finding{finding([]string{jobs}, "O1", "O2")}, 0, 0},
		"by one of its invariants":     {[]report.Finding{finding([]string{jobs, "backups.example.com default/{backup}"}, "O2")}, 0, 0},
		"in two parts":                 {[]report.Finding{finding([]string{jobs}, "O1"), finding([]string{jobs}, "O2")}, 0, 0},
		"another invariant too":        {[]report.Finding{finding([]string{jobs}, "O1", "O8")}, 1, 1},
		"another object too":           {[]report.Finding{finding([]string{jobs, "configmaps default/a"}, "O1")}, 1, 1},
		"the known one and another":    {[]report.Finding{finding([]string{jobs}, "O1"), finding([]string{jobs}, "O5")}, 1, 0},
		"an object of a longer prefix": {[]report.Finding{finding([]string{"x" + jobs}, "O1")}, 1, 1},
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

// newSuite makes a folder with an operator whose module needs no download, and a prover that reports
// findings in place of proving. It returns the arguments for both.
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
	write("others/archiver/known.yaml", "flags: [-smoke]\n"+knownBug, 0o600)
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
		"-folder", filepath.Join(root, "others"), "-bin", filepath.Join(root, "bin"), "-dir", filepath.Join(root, "artifacts"),
		"-prover", filepath.Join(root, "prove"),
	}
}

func TestOthers(t *testing.T) {
	const found = `[{"invariants": ["O1"], "objects": ["` + jobs + `"], "runs": [{"replay": "make prove PLAN=known"}]}`
	for name, tc := range map[string]struct {
		findings string
		exit     int
		code     int
		want     []string
	}{
		"known": {found + "]", 1, 0, []string{
			"-seed 1 -smoke", "example.com/archiver v1.2.3, 3 plans: 2 held, 1 broken, 0 inconclusive, 0 void; 1 findings, 0 new, 0 vanished",
		}},
		"new": {found + `, {"invariants": ["O9"], "objects": ["` + jobs + `"], "violations": [{"invariant": "O9", "message": "it was lost"}],
			"runs": [{"replay": "make prove PLAN=new"}]}]`, 1, 1, []string{"new finding: O9", "O9: it was lost", "again: make prove PLAN=new", "known.yaml", "2 findings, 1 new, 0 vanished"}},
		"vanished": {"[]", 0, 1, []string{
			"vanished finding: [O1 O2]", "the job is created twice", "plan life:P3:POST:/apis/batch/v1/namespaces/default/jobs:1", "0 findings, 0 new, 1 vanished",
		}},
		"undone": {found + "]", 2, 2, []string{"proving archiver: running the prover: exit status 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var output strings.Builder
			err := others(t.Context(), newSuite(t, tc.findings, tc.exit), &output)
			g.Expect(program.ExitCode(err, errDifferent)).To(Equal(tc.code), "%v", err)
			for _, want := range tc.want {
				g.Expect(output.String()).To(ContainSubstring(want))
			}
		})
	}
}

// An operator without subject.yaml is described by its prepare.sh.
func TestOthers_prepares(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		want   string // in the output or the error
	}{
		"described": {"mkdir -p $1/subject && touch $1/subject/subject.yaml", "/bin/archiver/subject/subject.yaml -dir"},
		"failed":    {"exit 3", "prepare.sh: exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			args := newSuite(t, "[]", 0)
			folder := filepath.Join(args[1], "archiver")
			g.Expect(os.Remove(filepath.Join(folder, "subject.yaml"))).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(folder, "prepare.sh"), []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700)).To(Succeed())
			var output strings.Builder
			err := others(t.Context(), args, &output)
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
		"no such operator":    {args: append(args, "-run=nothing"), want: `has none with "nothing" in its name`},
		"no expression":       {args: append(args, "-run=["), want: "reading -run"},
		"unknown flag":        {args: []string{"-surprise"}, want: "reading the arguments"},
		"no operator at all":  {args: []string{"-folder", t.TempDir()}, want: "no folder in"},
		"nothing is required": {args: args, file: "archiver/go.mod", want: "running go build"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.file != "" {
				g.Expect(os.WriteFile(filepath.Join(folder, tc.file), []byte("module leasehold.dev/x\n"), 0o600)).To(Succeed())
			}
			g.Expect(others(t.Context(), tc.args, &strings.Builder{})).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// Package docs holds what docs/ names in the source to the source. It has tests only.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// part is one row of docs/mission.md.
type part struct {
	name, asks string
	code       []string
	specs      []spec
}

// spec is a test function, or a spec of Ginkgo by its text.
type spec struct{ file, text string }

// parts reads the rows of the tables in document.
func parts(document string) []part {
	var rows []part
	for line := range strings.Lines(document) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !regexp.MustCompile(`^ [TSVM]\d+ $`).MatchString(cells[0]) {
			continue
		}
		p := part{name: strings.TrimSpace(cells[0]), asks: strings.TrimSpace(cells[1])}
		for code := range strings.SplitSeq(cells[2], "<br>") {
			p.code = append(p.code, strings.Trim(code, " `"))
		}
		for named := range strings.SplitSeq(cells[3], "<br>") {
			file, text, _ := strings.Cut(named, ": ")
			p.specs = append(p.specs, spec{strings.Trim(file, " `"), strings.TrimSpace(text)})
		}
		rows = append(rows, p)
	}
	return rows
}

// codes end the text of some specs, such as (R24) or (V1-V4, V7). They are no part of it.
var codes = regexp.MustCompile(`( \([A-Z][-A-Z0-9, ]*\))?:?$`)

func plain(text string) string { return codes.ReplaceAllString(text, "") }

// specsOf returns the test functions of a file, and the texts of its specs of Ginkgo.
func specsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Name.Name, "Test") && n.Recv == nil {
				found = append(found, n.Name.Name)
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.Ident)
			if !ok || len(n.Args) == 0 || !slices.Contains([]string{"It", "Entry", "DescribeTable"}, called.Name) {
				return true
			}
			if literal, ok := n.Args[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					found = append(found, plain(text))
				}
			}
		}
		return true
	})
	return found
}

func TestMissionNamesWhatExists(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "mission.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts(string(document)) {
		for _, path := range p.code {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: the code is gone: %v", p.name, err)
			}
		}
		for _, s := range p.specs {
			if !slices.Contains(specsOf(t, filepath.Join(root, s.file)), plain(s.text)) {
				t.Errorf("%s: %s has no spec %q", p.name, s.file, s.text)
			}
		}
	}
}

func TestMissionIsComplete(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "mission.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, task := range []struct {
		letter string
		parts  int
	}{{"T", 21}, {"S", 8}, {"V", 20}, {"M", 14}} {
		for n := range task.parts {
			want = append(want, task.letter+strconv.Itoa(n+1))
		}
	}
	for _, p := range parts(string(document)) {
		got = append(got, p.name)
		if p.asks == "" || len(p.code) == 0 || p.code[0] == "" || len(p.specs) == 0 || p.specs[0].text == "" {
			t.Errorf("%s lacks what it asks for, its code or its spec: %+v", p.name, p)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the parts are %v, want %v", got, want)
	}
}

// The links of a table and of the decisions lead somewhere.
func TestLinksOfDocs(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		for _, file := range files {
			document, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range links.FindAllStringSubmatch(string(document), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), link[1])); err != nil && !strings.Contains(link[1], "://") {
					t.Errorf("%s leads to %s, which does not exist", file, link[1])
				}
			}
		}
	}
}

// The checks are checks: each finds what a table must not have.
func TestSpecsAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some_test.go")
	source := "package some\nfunc TestA() {}\nfunc (x) TestB() {}\nfunc helper() { It(\"does this (R7, T-C)\"); By(\"no spec\"); DescribeTable(\"all of:\", Entry(`raw`)) }\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := specsOf(t, file), []string{"TestA", "does this", "all of", "raw"}; !slices.Equal(got, want) {
		t.Errorf("specsOf() = %q, want %q", got, want)
	}
	row := parts("| T1 | asks | `a.go`<br>`b` | `c_test.go`: does: this<br>`d_test.go`: TestD |\n| no | row |\n")
	if len(row) != 1 || !slices.Equal(row[0].code, []string{"a.go", "b"}) ||
		!slices.Equal(row[0].specs, []spec{{"c_test.go", "does: this"}, {"d_test.go", "TestD"}}) {
		t.Errorf("parts() = %+v", row)
	}
}

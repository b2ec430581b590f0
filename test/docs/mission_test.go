// SPDX-License-Identifier: Apache-2.0

// Package docs tests that names of code in the documents exist. It has only tests.
package docs

import (
	"errors"
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
	name, requires string
	code           []string
	specs          []spec
}

// spec is a test function, or the text of a Ginkgo spec.
type spec struct{ file, text string }

// parts reads the rows of the tables in document.
func parts(document string) []part {
	var rows []part
	for line := range strings.Lines(document) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !regexp.MustCompile(`^ [TSVMH]\d+ $`).MatchString(cells[0]) {
			continue
		}
		p := part{name: strings.TrimSpace(cells[0]), requires: strings.TrimSpace(cells[1])}
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

// specsOf returns the test functions of a file and the texts of its Ginkgo specs.
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
					found = append(found, strings.TrimSuffix(text, ":"))
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
				t.Errorf("%s: the code does not exist: %v", p.name, err)
			}
		}
		for _, s := range p.specs {
			if !slices.Contains(specsOf(t, filepath.Join(root, s.file)), strings.TrimSuffix(s.text, ":")) {
				t.Errorf("%s: %s has no spec %q", p.name, s.file, s.text)
			}
		}
	}
}

// An integration spec that builds its own manager tests the library, not the shipped program.
func TestMissionNamesSpecsOfTheProgram(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "mission.md"))
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`\b(newReplica|newPair|NewManager|NewControllerManagedBy)\(`)
	for _, p := range parts(string(document)) {
		for _, s := range p.specs {
			source, err := os.ReadFile(filepath.Join(root, s.file))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(s.file, "test/integration/") && own.Match(source) {
				t.Errorf("%s: %s builds a manager of its own", p.name, s.file)
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
	}{{"T", 21}, {"S", 8}, {"V", 20}, {"M", 17}, {"H", 7}} {
		for n := range task.parts {
			want = append(want, task.letter+strconv.Itoa(n+1))
		}
	}
	for _, p := range parts(string(document)) {
		got = append(got, p.name)
		if p.requires == "" || len(p.code) == 0 || p.code[0] == "" || len(p.specs) == 0 || p.specs[0].text == "" {
			t.Errorf("%s lacks what it requires, its code or its spec: %+v", p.name, p)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the parts are %v, want %v", got, want)
	}
}

// Links lead to existing files and headings. Those of the prover's docs stay in its module, because
// its zip has no other files.
func TestLinksOfDocs(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]*)(#[^)]+)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "test/harness/*.md",
		"test/harness/docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		for _, file := range files {
			document, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range links.FindAllStringSubmatch(code.ReplaceAllString(string(document), ""), -1) {
				if strings.Contains(link[1], "://") {
					continue
				}
				if err := leadsTo(file, link[1], strings.TrimPrefix(link[2], "#")); err != nil {
					t.Errorf("%s: the link %s%s: %v", file, link[1], link[2], err)
				}
			}
		}
	}
}

// leadsTo returns an error if a link in a file is broken; path is empty for the file itself.
func leadsTo(file, path, heading string) error {
	target := file
	if path != "" {
		target = filepath.Join(filepath.Dir(file), path)
	}
	module := filepath.Join(root, "test", "harness")
	if strings.HasPrefix(file, module) && !strings.HasPrefix(target, module) {
		return errors.New("it leads out of the module")
	}
	if heading == "" {
		_, err := os.Stat(target)
		return err
	}
	document, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(document)) {
		if title := strings.TrimLeft(line, "#"); title != line && anchor(title) == heading {
			return nil
		}
	}
	return errors.New("there is no such heading")
}

// anchor returns the fragment of a heading.
func anchor(title string) string {
	kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
	return strings.ReplaceAll(kept, " ", "-")
}

func TestBrokenLinksAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.md")
	if err := os.WriteFile(file, []byte("# A\n\n## What, and why\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, works := range map[[2]string]bool{
		{"a.md", ""}: true, {"a.md", "what-and-why"}: true, {"", "what-and-why"}: true,
		{"b.md", ""}: false, {"a.md", "why"}: false, {"b.md", "what-and-why"}: false,
	} {
		if err := leadsTo(file, link[0], link[1]); (err == nil) != works {
			t.Errorf("%s#%s: %v", link[0], link[1], err)
		}
	}
}

// The index lists each record once, by its title, and each record has a date.
func TestDecisionsAreInTheIndex(t *testing.T) {
	folder := filepath.Join(root, "docs", "decisions")
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) < 2 || len(files) > 31 {
		t.Fatalf("%d records, want at most 30 and an index (%v)", len(files)-1, err)
	}
	dated := regexp.MustCompile(`\A# (.+)\n\n20\d\d-\d\d-\d\d`)
	for _, file := range files {
		name := filepath.Base(file)
		if name == "README.md" {
			continue
		}
		record, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title := dated.FindStringSubmatch(string(record))
		if title == nil {
			t.Errorf("%s begins with no title and date", name)
			continue
		}
		if row := "](" + name + ") | " + title[1] + " |"; strings.Count(string(index), row) != 1 {
			t.Errorf("the index does not have %s once as %q", name, title[1])
		}
	}
}

// specsOf finds specs and nothing else.
func TestSpecsAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some_test.go")
	source := "package some\nfunc TestA() {}\nfunc (x) TestB() {}\n" +
		"func helper() { It(\"does this\"); By(\"no spec\"); DescribeTable(\"all of:\", Entry(`raw`)) }\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := specsOf(t, file), []string{"TestA", "does this", "all of", "raw"}; !slices.Equal(got, want) {
		t.Errorf("specsOf() = %q, want %q", got, want)
	}
	row := parts("| T1 | requires | `a.go`<br>`b` | `c_test.go`: does: this<br>`d_test.go`: TestD |\n| no | row |\n")
	if len(row) != 1 || !slices.Equal(row[0].code, []string{"a.go", "b"}) ||
		!slices.Equal(row[0].specs, []spec{{"c_test.go", "does: this"}, {"d_test.go", "TestD"}}) {
		t.Errorf("parts() = %+v", row)
	}
}

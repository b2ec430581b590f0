// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// The layout lists exactly the folders of the tree down to the second level.
func TestLayout(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := layout(string(document))
	if err != nil {
		t.Fatal(err)
	}
	want, err := folders(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range differences(want, got) {
		t.Errorf("the layout in docs/architecture.md %s", problem)
	}
}

// The table lists exactly the modules that go.mod requires directly.
func TestDependencies(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range module.Require {
		if !r.Indirect {
			want = append(want, r.Mod.Path)
		}
	}
	for _, problem := range differences(want, dependencies(string(document))) {
		t.Errorf("the table of dependencies in docs/architecture.md %s", problem)
	}
}

// layout returns the folders that the block below "## Layout" names: those at the beginning of a
// line, and within them each word that ends with a slash.
func layout(document string) (named []string, err error) {
	_, section, _ := strings.Cut(document, "## Layout\n")
	_, section, _ = strings.Cut(section, "```\n")
	block, _, found := strings.Cut(section, "```\n")
	if !found {
		return nil, fmt.Errorf("there is no block below ## Layout")
	}
	words := regexp.MustCompile(`(?m)(^|[ (])([.\w-]+)/`)
	var parent string
	for line := range strings.Lines(block) {
		for _, word := range words.FindAllStringSubmatch(line, -1) {
			if word[1] == "" {
				parent = word[2]
				named = append(named, parent)
				continue
			}
			named = append(named, parent+"/"+word[2])
		}
	}
	return named, nil
}

// dependencies returns the modules in the first column of the table below "## Dependencies".
func dependencies(document string) (named []string) {
	_, section, _ := strings.Cut(document, "## Dependencies")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for module := range strings.FieldsSeq(row[1]) {
			named = append(named, strings.Trim(module, "`"))
		}
	}
	return named
}

// folders returns the folders of the tree down to the second level, without those of .gitignore,
// git and editors.
func folders(tree string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(tree, ".gitignore"))
	if err != nil {
		return nil, err
	}
	ignored := append(strings.Fields(string(text)), "/.git/", "testdata/")
	var all []string
	for _, pattern := range []string{"*", "*/*"} {
		paths, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name, err := filepath.Rel(tree, path)
			if err != nil {
				return nil, err
			}
			top, _, _ := strings.Cut(name, "/")
			info, err := os.Stat(path)
			if err != nil || !info.IsDir() || slices.Contains(ignored, "/"+top+"/") ||
				slices.Contains(ignored, filepath.Base(name)+"/") {
				continue
			}
			all = append(all, name)
		}
	}
	return all, nil
}

// differences reports elements of only one list, and repeated ones.
func differences(want, got []string) (problems []string) {
	counts := map[string]int{}
	for _, name := range got {
		counts[name]++
	}
	for _, name := range want {
		if counts[name] == 0 {
			problems = append(problems, "lacks "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		switch {
		case !slices.Contains(want, name):
			problems = append(problems, "has "+name+", which does not exist")
		case counts[name] > 1:
			problems = append(problems, "has "+name+" twice")
		}
	}
	return problems
}

func TestDifferencesAreFound(t *testing.T) {
	document := "## Layout\n```\na/   b/ c/: text\n     d/ (e/ it)\nf/   g\n```\n## Dependencies\n" +
		"| module | why |\n|---|---|\n| `x/y` `z` | a `b` |\n"
	named, err := layout(document)
	if want := []string{"a", "a/b", "a/c", "a/d", "a/e", "f"}; err != nil || !slices.Equal(named, want) {
		t.Errorf("layout() = %q, %v, want %q", named, err, want)
	}
	if _, err := layout("## Layout\n"); err == nil {
		t.Error("layout() accepts a document without a block")
	}
	if got, want := dependencies(document), []string{"x/y", "z"}; !slices.Equal(got, want) {
		t.Errorf("dependencies() = %q, want %q", got, want)
	}
	got := differences([]string{"a", "b"}, []string{"b", "b", "c"})
	if want := []string{"lacks a", "has b twice", "has c, which does not exist"}; !slices.Equal(got, want) {
		t.Errorf("differences() = %q, want %q", got, want)
	}
}

// maxLines bounds three products, without tests, generated code and licence lines. Raise a bound only with a reason.
var maxLines = map[string]int{
	"operator":    8_350, // the root, api, controllers and runners, but for the two below
	"page server": 1_250, // controllers/markdownview/viewer
	"election":    1_500, // runners/election, a module that other operators use
}

// license is the head of each file, which is no code.
const license = "// SPDX-License-Identifier: Apache-2.0\n\n"

// productOf returns the product that a file below the root belongs to.
func productOf(path string) string {
	switch {
	case strings.HasPrefix(path, "controllers/markdownview/viewer/"):
		return "page server"
	case strings.HasPrefix(path, "runners/election/"):
		return "election"
	}
	return "operator"
}

// The operator without its tests and what is generated stays thin, or the harness is not the heart.
func TestOperatorIsThin(t *testing.T) {
	lines := map[string]int{}
	for _, dir := range []string{".", "api", "controllers", "runners"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			switch name := filepath.Base(path); {
			case err != nil:
				return err
			case entry.IsDir() && dir == "." && path != filepath.Join(root, dir), name == "reconcilertest":
				return fs.SkipDir
			case filepath.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "zz_generated"):
				return nil
			}
			source, err := os.ReadFile(path)
			product, relErr := filepath.Rel(root, path)
			lines[productOf(product)] += strings.Count(strings.TrimPrefix(string(source), license), "\n")
			return errors.Join(err, relErr)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for product, most := range maxLines {
		t.Logf("the %s has %d lines", product, lines[product])
		if lines[product] == 0 || lines[product] > most {
			t.Errorf("the %s has %d lines, want at most %d: remove some, or raise maxLines and say why", product,
				lines[product], most)
		}
	}
}

package flakes

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/ginkgo/outline"
)

// isTest are the functions that `go test -run` runs.
var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)($|[^a-z])`)

// suite stands for what runs around all tests of a package: TestMain, init, and the
// nodes of Ginkgo that hold no spec, such as BeforeSuite.
const suite = "(suite)"

// Spec is a test that can be run by itself.
type Spec struct {
	// Package is its folder, as in test/integration/tenant.
	Package string
	// Name is that of the function, or the texts of a spec and its containers.
	Name string
	// Focus is where a Ginkgo spec is, as in x_test.go:10-20. Empty for a function.
	Focus string

	code
}

// sources are the test files of one package.
type sources struct {
	specs []Spec
	// helpers are all other declarations by name.
	helpers map[string]code
}

// node is what ginkgo outline says of a container or spec.
type node struct {
	Name, Text string
	Start, End int
	Spec       bool
	Nodes      []node
}

// readTree reads all packages of a module that have test files, by folder. What has
// a go.mod of its own is another module.
func readTree(root string) (map[string]sources, error) {
	all := map[string]sources{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != root && foreign(path, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(entry.Name(), "_test.go"):
			return nil
		}
		relative, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(relative)
		s, known := all[folder]
		if !known {
			s.helpers = map[string]code{}
		}
		if err := s.read(folder, path); err != nil {
			return err
		}
		all[folder] = s
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the tests of %s: %w", root, err)
	}
	return all, nil
}

// foreign folders are none that the go command looks into.
func foreign(path, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || slices.Contains([]string{"testdata", "vendor", "bin", "artifacts"}, name) {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

func (s *sources) read(folder, path string) error {
	text, err := os.ReadFile(path) // #nosec G304 -- a file of the tree
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", path, err)
	}
	f := source{folder: folder, path: path, text: text, files: files}
	nodes, err := f.nodes(file)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		start, end := f.offset(d.Pos()), f.offset(d.End())
		within := slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return n.Start < start || n.End > end })
		names := declared(d)
		switch {
		case len(within) > 0:
			leaves := f.leaves(within, "", f.without(start, end, within))
			s.specs = append(s.specs, leaves...)
			if len(leaves) == 0 {
				s.help([]string{suite}, f.code(start, end))
			}
		case isFunction(d) && isTest.MatchString(names[0]) && names[0] != "TestMain":
			s.specs = append(s.specs, Spec{Package: folder, Name: names[0], code: f.code(start, end)})
		case isFunction(d) && (names[0] == "TestMain" || names[0] == "init"):
			s.help([]string{suite}, f.code(start, end))
		default:
			s.help(names, f.code(start, end))
		}
	}
	return nil
}

// help adds what may be used by others. A name may be declared several times, as
// methods are.
func (s *sources) help(names []string, c code) {
	for _, name := range names {
		if name != "_" {
			s.helpers[name] = s.helpers[name].plus(c)
		}
	}
}

// source is one file.
type source struct {
	folder, path string
	text         []byte
	files        *token.FileSet
}

func (f source) offset(p token.Pos) int { return f.files.Position(p).Offset }

// nodes are the containers and specs of a file, if it has any.
func (f source) nodes(file *ast.File) ([]node, error) {
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"github.com/onsi/ginkgo/v2"` }) {
		return nil, nil
	}
	found, err := outline.FromASTFile(f.files, file)
	if err != nil {
		return nil, fmt.Errorf("looking for specs in %s: %w", f.path, err)
	}
	raw, err := json.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("looking for specs in %s: %w", f.path, err)
	}
	var nodes []node
	if err := json.Unmarshal(raw, &nodes); err != nil {
		return nil, fmt.Errorf("looking for specs in %s: %w", f.path, err)
	}
	return nodes, nil
}

// leaves are the specs among nodes, with the code that is around them.
func (f source) leaves(nodes []node, above string, around code) []Spec {
	var specs []Spec
	for _, n := range nodes {
		name := strings.TrimSpace(above + " " + n.Text)
		if n.Spec {
			specs = append(specs, Spec{Package: f.folder, Name: name, Focus: f.lines(n), code: around.plus(f.code(n.Start, n.End))})
			continue
		}
		specs = append(specs, f.leaves(n.Nodes, name, around)...)
	}
	return specs
}

// lines are those of a node, as ginkgo's --focus-file takes them: without the last.
func (f source) lines(n node) string {
	line := func(offset int) int { return 1 + strings.Count(string(f.text[:offset]), "\n") }
	return fmt.Sprintf("%s:%d-%d", filepath.Base(f.path), line(n.Start), line(n.End)+1)
}

// code is text without comments and layout, and the names in it.
type code struct {
	body string
	uses map[string]bool
}

// without is the code of a range without the specs in it.
func (f source) without(start, end int, nodes []node) code {
	blank := slices.Clone(f.text)
	var erase func([]node)
	erase = func(nodes []node) {
		for _, n := range nodes {
			if n.Spec {
				for i := n.Start; i < n.End; i++ {
					blank[i] = ' '
				}
			}
			erase(n.Nodes)
		}
	}
	erase(nodes)
	f.text = blank
	return f.code(start, end)
}

func (f source) code(start, end int) code {
	var s scanner.Scanner
	part := f.text[start:end]
	s.Init(token.NewFileSet().AddFile("", -1, len(part)), part, nil, 0)
	var b strings.Builder
	// Everything in a package is run by its TestMain and within its suite.
	uses := map[string]bool{suite: true}
	for {
		_, t, literal := s.Scan()
		if t == token.EOF {
			return code{b.String(), uses}
		}
		if t == token.IDENT {
			uses[literal] = true
		}
		// A line's end is a semicolon, wherever the line is broken.
		if t != token.SEMICOLON {
			b.WriteString(t.String() + " " + literal + "\n")
		}
	}
}

func isFunction(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Recv == nil
}

// declared are the names that a declaration gives; a method's is its own.
func declared(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		names = append(names, d.Name.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}

// plus is the code of both.
func (c code) plus(other code) code {
	uses := maps.Clone(other.uses)
	maps.Copy(uses, c.uses)
	return code{c.body + other.body, uses}
}

func (c code) usesAny(names map[string]bool) bool {
	for name := range c.uses {
		if names[name] {
			return true
		}
	}
	return false
}

package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"leasehold.dev/test/performance/gate/row"
)

const (
	// file is where benchmarks are that the gate runs.
	file = "bench_test.go"
	// room is where packages are looked for. IDs leave it out.
	room = "controllers"
)

// find returns the packages of a tree that have benchmarks, by their path below the
// room, sorted.
func find(tree string) ([]string, error) {
	var packages []string
	err := filepath.WalkDir(filepath.Join(tree, room), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != file {
			return err
		}
		name, err := filepath.Rel(filepath.Join(tree, room), filepath.Dir(path))
		packages = append(packages, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for benchmarks: %w", err)
	}
	slices.Sort(packages)
	return packages, nil
}

// program is the compiled test of one package.
type program struct {
	pkg, path string
	// dir is the package's folder, in which it runs.
	dir string
}

// compile makes the programs of both trees. A package that the base does not have
// has none there.
func compile(ctx context.Context, p row.Pair, packages []string) (base, head []program, err error) {
	for _, pkg := range packages {
		p.Bench.Say("benchmarks: compiling those of %s", pkg)
		h := at(p, p.Head.Dir, pkg, "head")
		if said, err := h.compile(ctx, p.Head.Dir, ""); err != nil {
			return nil, nil, fmt.Errorf("compiling the tests of %s in the head: %w\n%s", pkg, err, said)
		}
		head = append(head, h)
		b := at(p, p.Base.Dir, pkg, "base")
		if _, err := os.Stat(b.dir); err != nil {
			continue
		}
		overlay, err := b.instead(h)
		if err != nil {
			return nil, nil, err
		}
		if _, err := b.compile(ctx, p.Base.Dir, overlay); err != nil {
			p.Bench.Say("benchmarks: the base does not compile with those of the head in %s, so its own are run there", pkg)
			if said, err := b.compile(ctx, p.Base.Dir, ""); err != nil {
				return nil, nil, fmt.Errorf("compiling the tests of %s in the base: %w\n%s", pkg, err, said)
			}
		}
		base = append(base, b)
	}
	return base, head, nil
}

func at(p row.Pair, tree, pkg, side string) program {
	return program{pkg: pkg, dir: filepath.Join(tree, room, filepath.FromSlash(pkg)),
		path: filepath.Join(p.Bench.Dir, side+"-"+strings.ReplaceAll(pkg, "/", "-")+".test")}
}

// instead makes the file by which the go command takes the other's benchmarks in the
// place of our own.
func (p program) instead(other program) (overlay string, err error) {
	text, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(p.dir, file): filepath.Join(other.dir, file)},
	})
	if err != nil {
		return "", fmt.Errorf("writing an overlay: %w", err)
	}
	overlay = p.path + ".overlay.json"
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", fmt.Errorf("writing an overlay: %w", err)
	}
	return overlay, nil
}

func (p program) compile(ctx context.Context, tree, overlay string) (said []byte, err error) {
	args := []string{"test", "-c", "-o", p.path}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./"+room+"/"+p.pkg)...) // #nosec G204 -- the arguments are ours
	command.Dir = tree
	return command.CombinedOutput()
}

// gone returns a row for each benchmark of the base that the head does not have.
func gone(base, head string) ([]row.Row, error) {
	before, err := names(base)
	if err != nil {
		return nil, err
	}
	after, err := names(head)
	if err != nil {
		return nil, err
	}
	var rows []row.Row
	for _, name := range before {
		if !slices.Contains(after, name) {
			rows = append(rows, row.Row{ID: "benchmarks/" + name, Base: "a benchmark", Verdict: row.Gone,
				Reason: "nobody sees any more when this gets worse"})
		}
	}
	return rows, nil
}

// names are the benchmarks of a tree, as they are called in IDs.
func names(tree string) ([]string, error) {
	packages, err := find(tree)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, pkg := range packages {
		source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(tree, room, filepath.FromSlash(pkg), file), nil, 0)
		if err != nil {
			return nil, fmt.Errorf("reading the benchmarks of %s: %w", pkg, err)
		}
		for _, d := range source.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				if name, is := strings.CutPrefix(f.Name.Name, "Benchmark"); is {
					all = append(all, pkg+"."+name)
				}
			}
		}
	}
	return all, nil
}

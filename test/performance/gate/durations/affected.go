package durations

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is a package with tests.
type pkg struct {
	// folder is below the root of the module, as in test/harness/env; the root's is ".".
	folder string
	// needs are the folders of the module that its tests are compiled from.
	needs []string
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath string
	Deps       []string
	Module     *struct{ Path string }
}

// affected returns the packages of head whose tests a difference between the trees
// may concern, those first that are next to it.
func affected(ctx context.Context, base, head string) ([]pkg, error) {
	packages, folders, err := list(ctx, head)
	if err != nil {
		return nil, err
	}
	before, err := digests(base, folders)
	if err != nil {
		return nil, err
	}
	after, err := digests(head, folders)
	if err != nil {
		return nil, err
	}
	different := map[string]bool{}
	for folder, digest := range after {
		if before[folder] != digest {
			different[folder] = true
		}
	}
	for folder := range before {
		if _, still := after[folder]; !still {
			different[folder] = true
		}
	}
	return choose(packages, different), nil
}

// choose returns the packages that need what is different. Those below test/ run the
// operator, so they need the program and all that it is made of.
func choose(packages []pkg, different map[string]bool) []pkg {
	var program []string
	for _, p := range packages {
		if p.folder == "." {
			program = p.needs
		}
	}
	var all []pkg
	for _, p := range packages {
		needs := p.needs
		if strings.HasPrefix(p.folder, "test/") {
			needs = slices.Concat(needs, program)
		}
		if slices.ContainsFunc(needs, func(folder string) bool { return different[folder] }) {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b pkg) int {
		return cmp.Or(distance(a, different)-distance(b, different), strings.Compare(a.folder, b.folder))
	})
	return all
}

// distance orders packages by how likely a difference shows in their tests.
func distance(p pkg, different map[string]bool) int {
	suite := strings.HasPrefix(p.folder, integration)
	switch {
	case different[p.folder]:
		return 0
	// The suite of a room has its name.
	case suite && slices.ContainsFunc(slices.Collect(maps.Keys(different)), func(d string) bool { return path.Base(d) == path.Base(p.folder) }):
		return 1
	case !strings.HasPrefix(p.folder, "test/"):
		return 2
	case suite:
		return 3
	default:
		return 4
	}
}

// list returns the packages of a module that have tests, and all folders with packages.
func list(ctx context.Context, tree string) (packages []pkg, folders map[string]bool, err error) {
	command := exec.CommandContext(ctx, "go", "list", "-test", "-json=ImportPath,Deps,Module", "./...")
	command.Dir = tree
	out, err := command.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, nil, fmt.Errorf("listing the packages of %s: %w", tree, err)
	}
	folders = map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return packages, folders, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("listing the packages of %s: %w", tree, err)
		}
		if l.Module == nil {
			continue
		}
		folder, isTest := strings.CutSuffix(l.ImportPath, ".test")
		folder, own := below(l.Module.Path, folder)
		if !own {
			continue
		}
		folders[folder] = true
		if !isTest {
			continue
		}
		p := pkg{folder: folder}
		for _, needed := range l.Deps {
			if f, own := below(l.Module.Path, needed); own {
				p.needs = append(p.needs, f)
			}
		}
		packages = append(packages, p)
	}
}

// below is the folder of a package of a module, whichever tests it is compiled for.
func below(module, importPath string) (folder string, own bool) {
	importPath, _, _ = strings.Cut(importPath, " ")
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// digests are of all files by the folder of the package that they are in or below,
// such as in its testdata.
func digests(tree string, folders map[string]bool) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(tree, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(tree, file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if relative != "." && foreign(file, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		folder := home(filepath.ToSlash(relative), folders)
		if folder == "" || !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(file) // #nosec G304 -- a file of the tree
		if err != nil {
			return err
		}
		// Files are walked in the order of their names.
		all[folder] = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %x", all[folder], relative, sha256.Sum256(text))))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("comparing the files of %s: %w", tree, err)
	}
	return all, nil
}

// home is the folder of the package that a file belongs to. Of what is in no package
// only the manifests and the module's files concern tests.
func home(file string, folders map[string]bool) string {
	folder := path.Dir(file)
	for folder != "." && !folders[folder] {
		folder = path.Dir(folder)
	}
	known := strings.HasPrefix(file, "config/") || path.Dir(file) == "." && slices.Contains([]string{".go", ".mod", ".sum"}, path.Ext(file))
	if folder == "." && !known {
		return ""
	}
	return folder
}

// foreign folders are none of the module's.
func foreign(dir, name string) bool {
	if strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "artifacts"}, name) {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

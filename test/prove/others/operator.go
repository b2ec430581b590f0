// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"leasehold.dev/test/harness/run"
)

// operator is an operator of other people.
type operator struct {
	name   string
	folder string // with its go.mod, subject.yaml and known.yaml
	known  known
}

func (op operator) file(name string) string { return filepath.Join(op.folder, name) }

// load reads the operators of a folder, sorted by name.
func load(folder string) ([]operator, error) {
	folders, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return nil, fmt.Errorf("looking for operators: %w", err)
	}
	var all []operator
	for _, dir := range folders {
		_, noModule := os.Stat(filepath.Join(dir, "go.mod"))
		findings := filepath.Join(dir, "known.yaml")
		if _, err := os.Stat(findings); err != nil && noModule != nil {
			continue
		}
		k, err := readKnown(findings)
		if err != nil {
			return nil, err
		}
		if noModule != nil && k.Version == "" {
			continue
		}
		all = append(all, operator{name: filepath.Base(dir), folder: dir, known: k})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("looking for operators: no folder in %s has a go.mod or a version", folder)
	}
	return all, nil
}

// check returns an error for each known.yaml in the folder of operators that cannot be used.
func check(folder string) error {
	all, err := load(folder)
	errs := []error{err}
	for _, op := range all {
		for _, f := range op.known.Findings {
			if f.Plan == "" {
				continue
			}
			if _, err := run.ParsePlan(f.Plan); err != nil {
				errs = append(errs, fmt.Errorf("reading the known findings of %s: %w", op.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// module is the output of `go list -m -json` about a module.
type module struct {
	Path, Version, Dir string
	Main, Indirect     bool
}

// build puts the operator's programs into a folder, and links to its modules, by the last
// element of their paths, into the folder's subfolder modules. It returns the first module with
// its version. The files of the modules stay in the module cache.
func (op operator) build(ctx context.Context, bin string, output io.Writer) (string, error) {
	if op.known.Version != "" {
		return op.known.Version, nil
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return "", fmt.Errorf("looking for the folder of the programs: %w", err)
	}
	links := filepath.Join(bin, "modules")
	if err := errors.Join(os.RemoveAll(links), os.MkdirAll(links, 0o750)); err != nil {
		return "", fmt.Errorf("making the folder of the modules: %w", err)
	}
	fmt.Fprintf(output, "%s: building\n", op.name)
	if _, err := op.goTool(ctx, "build", "-o", bin+string(filepath.Separator), "tool"); err != nil {
		return "", err
	}
	list, err := op.goTool(ctx, "list", "-m", "-json", "all")
	if err != nil {
		return "", err
	}
	var pinned []string
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var m module
		switch err := decoder.Decode(&m); {
		case errors.Is(err, io.EOF):
			if len(pinned) == 0 {
				return "", fmt.Errorf("reading %s: it requires no module directly", op.file("go.mod"))
			}
			return pinned[0], nil
		case err != nil:
			return "", fmt.Errorf("reading the modules of %s: %w", op.name, err)
		case m.Main || m.Indirect:
			continue
		}
		if err := os.Symlink(m.Dir, filepath.Join(links, path.Base(m.Path))); err != nil {
			return "", fmt.Errorf("linking to module %s: %w", m.Path, err)
		}
		pinned = append(pinned, m.Path+" "+m.Version)
	}
}

// subject returns the path of subject.yaml. An operator without one has a prepare.sh, which writes
// subject/subject.yaml into the folder of the programs.
func (op operator) subject(ctx context.Context, bin, prover string, output io.Writer) (string, error) {
	path := op.file("subject.yaml")
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	command := exec.CommandContext(ctx, op.file("prepare.sh"), bin, prover)
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w", op.file("prepare.sh"), err)
	}
	return filepath.Join(bin, "subject", "subject.yaml"), nil
}

// goTool runs the go command in the operator's folder, and returns its output.
func (op operator) goTool(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = op.folder
	// The flags of make stay, so that a package is not compiled again for other flags.
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly")
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running go %s in %s: %w\n%s", strings.Join(args, " "), op.folder, err, stderr.String())
	}
	return out, nil
}

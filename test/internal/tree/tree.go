// SPDX-License-Identifier: Apache-2.0

// Package tree creates modified copies of this repository, for example with an injected
// bug, so that they can be built and run beside the original.
package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// beginning is where the diffs of a patch begin.
var beginning = regexp.MustCompile(`(?m)^(diff --git |--- )`)

// Header decodes the YAML before the diffs of a patch, which git ignores. Unknown fields are errors.
func Header(patch []byte, into any) error {
	at := beginning.FindIndex(patch)
	if at == nil {
		return errors.New("there is no patch in it")
	}
	return yaml.UnmarshalStrict(patch[:at[0]], into)
}

// notCopied are folders of the repository that no build needs.
var notCopied = []string{".git", "bin", "artifacts"}

// changed are the lines of a patch that name a file.
var changed = regexp.MustCompile(`(?m)^(?:---|\+\+\+) [ab]/(\S+)`)

// Plant copies the repository's files at root into a folder, which is made, and applies a file of
// diffs there.
func Plant(ctx context.Context, root, into, file string) error {
	if err := Copy(root, into); err != nil {
		return err
	}
	return Patch(ctx, into, file)
}

// Copy copies the repository's files at root into a folder, which is made.
func Copy(root, into string) error {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(into, name)
		switch {
		case entry.IsDir() && slices.Contains(notCopied, name):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(to, 0o750)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err != nil {
		return fmt.Errorf("copying the source from %s: %w", root, err)
	}
	return nil
}

// Patch applies a file of diffs to the copy at dir, as a whole or not at all. The error has the output of git.
func Patch(ctx context.Context, dir, file string) error { return apply(ctx, dir, file) }

// Check returns an error if a file of diffs does not apply to the files at root, and changes nothing.
func Check(ctx context.Context, root, file string) error {
	patch, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a patch: %w", err)
	}
	// git reads the files, so without this go test would use a result from before a change of them.
	for _, name := range changed.FindAllSubmatch(patch, -1) {
		_, _ = os.Stat(filepath.Join(root, string(name[1]))) // a patch may make it
	}
	return apply(ctx, root, file, "--check")
}

func apply(ctx context.Context, dir, file string, flags ...string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("finding the copy to be changed: %w", err)
	}
	if file, err = filepath.Abs(file); err != nil {
		return fmt.Errorf("finding a patch: %w", err)
	}
	// #nosec G204 -- the patches are this repository's own.
	git := exec.CommandContext(ctx, "git",
		slices.Concat([]string{"apply", "--whitespace=nowarn"}, flags, []string{file})...)
	git.Dir = dir
	// In a repository around the copy git would silently ignore files outside that
	// repository.
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if output, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("applying %s: %w: %s", filepath.Base(file), err, bytes.TrimSpace(output))
	}
	return nil
}

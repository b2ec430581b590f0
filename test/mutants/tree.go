package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// notCopied are folders of the repository that no build needs.
var notCopied = []string{".git", "bin", "artifacts"}

// copyTree copies the repository's files into a folder.
func copyTree(root, into string) error {
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

// patch changes a copy of the repository; with "--check" it only tells whether it
// could.
func (m mutant) patch(ctx context.Context, dir string, flags ...string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("applying %s: %w", m.name, err)
	}
	// #nosec G204 -- the patches are this repository's own.
	git := exec.CommandContext(ctx, "git", slices.Concat([]string{"apply", "--whitespace=nowarn"}, flags, []string{m.path})...)
	git.Dir = dir
	// In a repository around the copy git would leave out what is not the
	// repository's, and say nothing.
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if said, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("applying %s: %w: %s", m.name, err, bytes.TrimSpace(said))
	}
	return nil
}

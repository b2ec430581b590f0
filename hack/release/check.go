package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/mod/semver"
)

// check refuses what cannot become a release, before anything is built. It returns the
// commit of the checkout.
func (o *options) check(ctx context.Context) (commit string, err error) {
	problems := []error{checkVersion(o.version), checkRegistry(o.registry)}
	if _, err := os.Lstat(o.out); err == nil {
		problems = append(problems, fmt.Errorf("%s exists: move or remove it first", o.out))
	} else if !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, fmt.Errorf("looking for %s: %w", o.out, err))
	}
	commit, err = o.checkout(ctx)
	if err := errors.Join(append(problems, err)...); err != nil {
		return "", fmt.Errorf("%w: %w", errInput, err)
	}
	return commit, nil
}

// checkVersion accepts what is a version for Go, for Helm and as a tag of an image.
func checkVersion(version string) error {
	switch {
	case version == "":
		return errors.New("no version: make release VERSION=v0.1.0")
	case semver.Canonical(version) != version:
		return fmt.Errorf("version %q is not like v0.1.0 or v0.1.0-rc.1", version)
	}
	return nil
}

func checkRegistry(registry string) error {
	if registry == "" {
		return errors.New("no registry: make release REGISTRY=ghcr.io/example")
	}
	if _, err := name.NewRepository(registry+"/image", name.StrictValidation); err != nil {
		return fmt.Errorf("registry %q is not like ghcr.io/example: %w", registry, err)
	}
	return nil
}

// checkout returns the commit of a checkout in which nothing is changed.
func (o *options) checkout(ctx context.Context) (commit string, err error) {
	commit, err = output(ctx, o.git, "-C", o.source, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", fmt.Errorf("finding the commit: %w", err)
	}
	changed, err := output(ctx, o.git, "-C", o.source, "status", "--porcelain")
	if err != nil {
		return "", fmt.Errorf("looking for changed files: %w", err)
	}
	if changed != "" {
		return "", fmt.Errorf("the tree is dirty, a release is made of a commit:\n%s", changed)
	}
	// A release may be built before its commit is tagged, but not in place of the tagged one.
	tagged, err := output(ctx, o.git, "-C", o.source, "rev-parse", "--verify", "--quiet",
		"refs/tags/"+o.version+"^{commit}")
	if err == nil && tagged != commit {
		return "", fmt.Errorf("tag %s is commit %s and %s is checked out", o.version, tagged, commit)
	}
	return commit, nil
}

// output runs a command and returns what it prints. Its error holds what the command wrote to
// stderr.
func output(ctx context.Context, program string, args ...string) (string, error) {
	return outputIn(ctx, "", nil, program, args...)
}

func outputIn(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, complaints.String())
	}
	return strings.TrimRight(string(printed), "\n"), nil
}

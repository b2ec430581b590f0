// Package trees gives the gate the two trees that it compares. What is not there
// already is put into a git worktree of its own, which is gone afterwards.
package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Trees are the two folders.
type Trees struct {
	// Base and Head are their roots.
	Base, Head string
	// BaseCommit is what is compared with: where the head left the base that was named.
	BaseCommit string
	// HeadCommit is the commit that the head is at, or was at before it was changed.
	// Empty where the head is not in git.
	HeadCommit string

	root, temporary string
	worktrees       []string
}

// Open makes the trees of a repository. base is a commit. head is a folder or a
// commit; empty, it is the repository as it lies there. The Trees have to be closed.
func Open(ctx context.Context, root, base, head string) (_ *Trees, err error) {
	t := &Trees{root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close(context.WithoutCancel(ctx)))
		}
	}()
	named, err := commit(ctx, root, base)
	if err != nil {
		return nil, fmt.Errorf("looking for the base: %q is no commit that is known here: name one, as in make gate BASE=origin/main", base)
	}
	if t.temporary, err = os.MkdirTemp("", "gate-"); err != nil {
		return nil, fmt.Errorf("making a folder for worktrees: %w", err)
	}
	if err := t.openHead(ctx, head); err != nil {
		return nil, err
	}
	t.BaseCommit = named
	if t.HeadCommit != "" {
		// What the base has got since is none of the head's doing.
		if t.BaseCommit, err = git(ctx, root, "merge-base", named, t.HeadCommit); err != nil {
			return nil, fmt.Errorf("looking for where %s and %s part: they have no commit in common here, as in a shallow clone, which git fetch --unshallow cures: %w", base, t.HeadCommit, err)
		}
	}
	t.Base, err = t.add(ctx, "base", t.BaseCommit)
	return t, err
}

func (t *Trees) openHead(ctx context.Context, head string) (err error) {
	if head == "" {
		head = t.root
	}
	if _, missing := os.Stat(filepath.Join(head, "go.mod")); missing == nil {
		if t.Head, err = filepath.Abs(head); err != nil {
			return fmt.Errorf("finding folder %s: %w", head, err)
		}
		// Outside of git there is none, and nothing to say about it.
		t.HeadCommit, _ = commit(ctx, t.Head, "HEAD")
		return nil
	}
	if t.HeadCommit, err = commit(ctx, t.root, head); err != nil {
		return fmt.Errorf("looking for the head: %q is neither a folder with a go.mod nor a commit that is known here", head)
	}
	t.Head, err = t.add(ctx, "head", t.HeadCommit)
	return err
}

// add makes a worktree of a commit.
func (t *Trees) add(ctx context.Context, name, commit string) (string, error) {
	dir := filepath.Join(t.temporary, name)
	t.worktrees = append(t.worktrees, dir)
	// The git hooks of the user do not apply to the comparison.
	_, err := git(ctx, t.root, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", dir, commit)
	if err != nil {
		return "", fmt.Errorf("making a worktree of %s: %w", commit, err)
	}
	return dir, nil
}

// Close removes the worktrees. It is safe to call more than once.
func (t *Trees) Close(ctx context.Context) error {
	var errs []error
	for _, dir := range t.worktrees {
		// One that was never made whole need not be known.
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if _, err := git(ctx, t.root, "worktree", "remove", "--force", dir); err != nil {
			errs = append(errs, fmt.Errorf("removing the worktree %s: %w", dir, err))
		}
	}
	t.worktrees = nil
	if t.temporary != "" {
		errs = append(errs, os.RemoveAll(t.temporary))
	}
	return errors.Join(errs...)
}

// Trailers returns the values of the trailers of one name in the messages of the
// head's own commits, the oldest first. A head that is not in git has none.
func (t *Trees) Trailers(ctx context.Context, name string) ([]string, error) {
	if t.HeadCommit == "" {
		return nil, nil
	}
	out, err := git(ctx, t.root, "log", "--reverse",
		fmt.Sprintf("--format=%%(trailers:key=%s,valueonly,unfold)", name), t.BaseCommit+".."+t.HeadCommit)
	if err != nil {
		return nil, fmt.Errorf("reading the messages of %s..%s: %w", t.BaseCommit, t.HeadCommit, err)
	}
	return lines(out), nil
}

// Changed returns the files of the head that match a pattern and are new or differ from
// the base, as paths with slashes.
func (t *Trees) Changed(ctx context.Context, pattern string) ([]string, error) {
	changed, err := git(ctx, t.Head, "diff", "--name-only", "--diff-filter=d", t.BaseCommit, "--", pattern)
	if err != nil {
		return nil, fmt.Errorf("comparing %s with %s: %w", t.Head, t.BaseCommit, err)
	}
	untracked, err := git(ctx, t.Head, "ls-files", "--others", "--exclude-standard", "--", pattern)
	if err != nil {
		return nil, fmt.Errorf("listing new files of %s: %w", t.Head, err)
	}
	return append(lines(changed), lines(untracked)...), nil
}

// lines are those that are not empty.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func commit(ctx context.Context, dir, ref string) (string, error) {
	return git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
}

// git runs git in a folder and returns what it said, without the last line's end.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...) // #nosec G204 -- the arguments are ours
	command.Dir = dir
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

package environment

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Checkout is a working tree of this repository with its programs built.
type Checkout struct {
	// Dir is its root.
	Dir string
	// Manager and Viewer are the programs.
	Manager, Viewer string
	// Commit is what is checked out, shortened, with -dirty if files are changed.
	// Empty if that is not known, as without git.
	Commit string
}

// Build builds the programs of the checkout at dir into the folder out. The error
// has what the compiler said.
func Build(ctx context.Context, dir, out string) (Checkout, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return Checkout{}, fmt.Errorf("finding folder %s: %w", out, err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Checkout{}, fmt.Errorf("making a folder for programs: %w", err)
	}
	c := Checkout{Dir: dir, Manager: filepath.Join(out, "manager"), Viewer: filepath.Join(out, "viewer"), Commit: commit(ctx, dir)}
	for program, source := range map[string]string{c.Manager: ".", c.Viewer: "./controllers/markdownview/viewer"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", program, source)
		build.Dir = dir
		if said, err := build.CombinedOutput(); err != nil {
			return Checkout{}, fmt.Errorf("building %s in %s: %w\n%s", source, dir, err, said)
		}
	}
	return c, nil
}

func commit(ctx context.Context, dir string) string {
	describe := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*")
	describe.Dir = dir
	var out bytes.Buffer
	describe.Stdout = &out
	if err := describe.Run(); err != nil {
		return ""
	}
	return strings.TrimSpace(out.String())
}

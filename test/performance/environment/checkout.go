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

// Checkout is a working tree of this repository with the operator built.
type Checkout struct {
	// Dir is its root.
	Dir string
	// Manager is the operator's program.
	Manager string
	// Commit is what is checked out, shortened, with -dirty if files are changed.
	// Empty if that is not known, as without git.
	Commit string
}

// Build builds the operator of the checkout at dir into the folder out. The error has the
// compiler's output.
func Build(ctx context.Context, dir, out string) (Checkout, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return Checkout{}, fmt.Errorf("finding folder %s: %w", out, err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Checkout{}, fmt.Errorf("making a folder for programs: %w", err)
	}
	c := Checkout{Dir: dir, Manager: filepath.Join(out, "manager"), Commit: commit(ctx, dir)}
	build := exec.CommandContext(ctx, "go", "build", "-o", c.Manager, ".")
	build.Dir = dir
	if said, err := build.CombinedOutput(); err != nil {
		return Checkout{}, fmt.Errorf("building the operator in %s: %w\n%s", dir, err, said)
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

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// push.sh pushes what install.yaml names, and reports what it does not name.
func TestPush(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	checkout(t, dir)
	if code, printed := made(t, dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, printed)
	}
	crane := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/google/go-containerregistry/cmd/crane")
	if printed, err := crane.CombinedOutput(); err != nil {
		t.Fatalf("building crane: %v\n%s", err, printed)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	team := strings.TrimPrefix(server.URL, "http://") + "/team"
	dist := filepath.Join(dir, "dist")
	push := func() (string, error) {
		var complaints strings.Builder
		cmd := exec.CommandContext(t.Context(), "./push.sh", dist, team, "v0.1.0")
		cmd.Stderr = &complaints
		printed, err := cmd.Output()
		return string(printed) + complaints.String(), err
	}

	printed, err := push()
	lines := strings.Split(printed, "\n")
	if err != nil || !strings.HasPrefix(lines[0], team+"/leasehold@sha256:") ||
		!strings.HasPrefix(lines[1], team+"/leasehold-viewer@sha256:") {
		t.Fatalf("%v, want the references of manager and viewer:\n%s", err, printed)
	}
	for i, p := range programs {
		tagged, err := output(t.Context(), filepath.Join(bin, "crane"), "digest", team+"/"+p.image+":v0.1.0")
		if err != nil || !strings.HasSuffix(lines[i], "@"+tagged) {
			t.Errorf("the tag is %s (%v), want %s", tagged, err, lines[i])
		}
	}
	write(t, filepath.Join(dist, "install.yaml"), "another", 0o644)
	if printed, err := push(); err == nil ||
		!strings.Contains(printed, "push: install.yaml does not name "+team+"/leasehold@sha256:") {
		t.Errorf("%v, want that install.yaml does not name the image:\n%s", err, printed)
	}
}

package controlplane

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installingGo is a `go` that writes a program and its arguments into $GOBIN, or fails if $BREAK is
// set.
const installingGo = `#!/bin/sh
echo "$@" >> "$BUILDS"
echo half > "$GOBIN/helm"
if [ -n "$BREAK" ]; then echo "broken on purpose" >&2; exit 1; fi
`

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	goCmd, builds := filepath.Join(dir, "go"), filepath.Join(dir, "builds")
	if err := os.WriteFile(goCmd, []byte(installingGo), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BUILDS", builds)
	t.Setenv("BREAK", "1")
	var log bytes.Buffer
	o := Options{Out: filepath.Join(dir, "out"), Go: goCmd, Log: &log}

	_, err := Install(t.Context(), Helm, o)
	if err == nil || !strings.Contains(err.Error(), "broken on purpose") {
		t.Errorf("Install = %v, want what go has printed", err)
	}
	t.Setenv("BREAK", "")
	for range 2 {
		path, err := Install(t.Context(), Helm, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil || !strings.Contains(path, Helm.Version) {
			t.Errorf("Install = %s (%v), want the path of a program of this version", path, err)
		}
	}
	text, err := os.ReadFile(builds)
	if err != nil {
		t.Fatal(err)
	}
	line := "install -trimpath -ldflags=-s -w helm.sh/helm/v4/cmd/helm@" + Helm.Version + "\n"
	if want := line + line; string(text) != want {
		t.Errorf("go was called by %q, want %q: again after a failure, and not after a success", text, want)
	}
	if !strings.Contains(log.String(), "helm: building helm.sh/helm/v4 "+Helm.Version) {
		t.Errorf("the log %q does not name what is built", log.String())
	}
}

// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// installingGo is a `go` that writes a program and its arguments into $GOBIN, or fails if $BREAK is
// set.
const installingGo = `#!/bin/sh
echo "$@" >> "$BUILDS"
echo half > "$GOBIN/helm"
if [ -n "$BREAK" ]; then echo "broken on purpose" >&2; exit 1; fi
`

func TestInstall(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	goCmd, builds := filepath.Join(dir, "go"), filepath.Join(dir, "builds")
	g.Expect(os.WriteFile(goCmd, []byte(installingGo), 0o755)).To(Succeed())
	t.Setenv("BUILDS", builds)
	t.Setenv("BREAK", "1")
	var log bytes.Buffer
	o := Options{Out: filepath.Join(dir, "out"), Go: goCmd, Log: &log}

	_, err := Install(t.Context(), Helm, o)
	g.Expect(err).To(MatchError(ContainSubstring("broken on purpose")))
	t.Setenv("BREAK", "")
	for range 2 {
		path, err := Install(t.Context(), Helm, o)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(path).To(And(BeARegularFile(), ContainSubstring(Helm.Version)))
	}
	line := "install -trimpath -gcflags=all=-dwarf=false -ldflags=-s -w helm.sh/helm/v4/cmd/helm@" + Helm.Version + "\n"
	g.Expect(os.ReadFile(builds)).To(BeEquivalentTo(line+line), "again after a failure, and not after a success")
	g.Expect(log.String()).To(HavePrefix("helm: building %s %s (80 seconds on 2 cores, once)", Helm.Module, Helm.Version))
}

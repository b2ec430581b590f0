package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"leasehold.dev/runners/version"
)

// --version needs no environment, and excuses no wrong argument.
func TestVersionFlag(t *testing.T) {
	o, err := parseOptions([]string{"--version"}, environment())
	if err != nil || !o.showVersion {
		t.Errorf("parseOptions(--version) = %v, showVersion %t, want nil and true", err, o != nil && o.showVersion)
	}
	if _, err := parseOptions([]string{"--version", "now"}, environment()); err == nil ||
		!strings.Contains(err.Error(), `unexpected argument "now"`) {
		t.Errorf("parseOptions(--version now) = %v, want unexpected argument", err)
	}
}

func TestBuildInfoMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(buildInfo(version.Info{Version: "v0.1.0", Revision: "c3f5a0a", GoVersion: "go1.26.0",
		Platform: "linux/amd64"})); err != nil {
		t.Fatal(err)
	}
	const want = `# HELP leasehold_build_info 1, with the version, the commit and the Go version that the operator was built from.
# TYPE leasehold_build_info gauge
leasehold_build_info{goversion="go1.26.0",revision="c3f5a0a",version="v0.1.0"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// The image of the manager has no certificates: those that the program brings are used.
func TestRootsWithoutCertificatesOfTheSystem(t *testing.T) {
	const none = "/nonexistent"
	if os.Getenv("SSL_CERT_DIR") != none {
		self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		self.Env = append(os.Environ(), "SSL_CERT_FILE="+none, "SSL_CERT_DIR="+none)
		if printed, err := self.CombinedOutput(); err != nil {
			t.Errorf("without files of certificates: %v\n%s", err, printed)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil || roots.Equal(x509.NewCertPool()) {
		t.Errorf("no roots (%v)", err)
	}
}

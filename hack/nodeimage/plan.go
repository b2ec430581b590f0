package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"leasehold.dev/test/harness/controlplane"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	kindModule       = "sigs.k8s.io/kind"
	// toolsModule is the folder whose go.mod pins kind.
	toolsModule = "../tools"
	// label is where the image says what it was built from.
	label = "dev.leasehold.node-image.inputs"
)

// assets is what goes into the image as it stands here, and the script that finishes it.
//
//go:embed files
var assets embed.FS

// plan has the image to build and its sources.
type plan struct {
	options
	version string // of Kubernetes, as in v1.36.3
	inputs  string // a hash; changes when a rebuild is needed
	root    string // name of the image of the root file system
	sudo    []string
}

// newPlan reads the pins, and says what is missing on this machine.
func newPlan(ctx context.Context, opts options) (*plan, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("a node image is built from Debian packages on Linux, and this is %s: use an image of kindest/node that can be pulled", runtime.GOOS)
	}
	if err := dockerAnswers(ctx, opts.docker); err != nil {
		return nil, err
	}
	mod, err := os.ReadFile("kubernetes/go.mod")
	if err != nil {
		return nil, fmt.Errorf("reading the pinned modules: %w", err)
	}
	version, err := controlplane.Version(mod, kubernetesModule)
	if err != nil {
		return nil, err
	}
	inputs, err := hashInputs(".")
	if err != nil {
		return nil, err
	}
	if opts.image == "" {
		opts.image = "leasehold-node:" + version
	}
	p := &plan{options: opts, version: version, inputs: inputs, root: rootImage()}
	if os.Geteuid() != 0 {
		p.sudo = []string{"sudo"}
	}
	return p, nil
}

// dockerAnswers says what to do when Docker is not installed, does not run or
// may not be used, and when it runs on a machine of another kind.
func dockerAnswers(ctx context.Context, docker string) error {
	if _, err := exec.LookPath(docker); err != nil {
		return fmt.Errorf("docker is needed and %s was not found: install it (on Debian and Ubuntu: apt-get install docker.io)", docker)
	}
	arch, err := output(ctx, docker, "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}")
	if err != nil {
		return fmt.Errorf("docker is installed but does not answer; is dockerd running (systemctl start docker, or dockerd by hand), and may this user use it (group docker): %w", err)
	}
	if want := "linux/" + runtime.GOARCH; arch != want {
		return fmt.Errorf("the Docker daemon is %s and this machine is %s: build on a machine like the daemon's", arch, want)
	}
	return nil
}

// finished says whether the image is there, built from what stands here.
func (p *plan) finished(ctx context.Context) bool {
	got, err := output(ctx, p.docker, "image", "inspect", "--format", `{{index .Config.Labels "`+label+`"}}`, p.image)
	return err == nil && got == p.inputs
}

// rootPossible says what is missing to make the root file system.
func (p *plan) rootPossible(ctx context.Context) error {
	if p.haveRoot(ctx) {
		return nil
	}
	var missing []error
	for _, need := range []struct{ file, pkg string }{
		{debootstrap, "debootstrap"},
		{keyring, "debian-archive-keyring"},
	} {
		if _, err := os.Stat(need.file); err != nil {
			missing = append(missing, fmt.Errorf("%s is needed: install it (on Debian and Ubuntu: apt-get install %s)",
				need.file, need.pkg))
		}
	}
	if len(p.sudo) > 0 {
		if _, err := exec.LookPath(p.sudo[0]); err != nil {
			missing = append(missing, errors.New("debootstrap has to run as root: run this as root, or install sudo"))
		}
	}
	return errors.Join(missing...)
}

// hashInputs is one hash over all that decides what the image becomes: this
// folder but its tests, the pins of kind, the flags of the linker, and the Go toolchain.
func hashInputs(dir string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version())
	source := os.DirFS(dir)
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(source, path)
		fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(text))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading what the image is built from: %w", err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, toolsModule, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the pin of kind: %w", err)
	}
	kind, err := controlplane.Version(mod, kindModule)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(sum, kind, controlplane.LDFlags(""))
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

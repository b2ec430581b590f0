package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"leasehold.dev/hack/pinned"
)

const (
	// kubernetesModule gives the control plane its version.
	kubernetesModule = "k8s.io/kubernetes"
	// stampFile holds what the binaries beside it were built from.
	stampFile = ".stamp"
	// currentLink points at the folder of the default version.
	currentLink = "current"
)

// plan has the version to build, its folder, and its sources.
type plan struct {
	goCmd   string
	module  string // folder of the go.mod that pins the version
	link    string // name of the link to dir, beside it
	version string // of Kubernetes, as in v1.36.3
	out     string // folder of all versions
	dir     string // folder of this version, below out
	stamp   string // changes when a rebuild is needed
}

// newPlan reads the go.mod and go.sum that pin the minor version: those of the
// folder of its name, or of the working directory for the default one.
func newPlan(out, goCmd, minor string) (*plan, error) {
	module, link := ".", currentLink
	if minor != "" {
		module, link = minor, minor
	}
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if errors.Is(err, os.ErrNotExist) && minor != "" {
		return nil, fmt.Errorf("no modules are pinned for Kubernetes %s: hack/controlplane has the folders %s",
			minor, minors())
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pinned modules: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("reading the module checksums: %w", err)
	}
	version, err := pinned.Version(mod, kubernetesModule)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, prog := range programs {
		names = append(names, prog.name+"="+prog.pkg)
	}
	dir := fmt.Sprintf("%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
	return &plan{
		goCmd:   goCmd,
		module:  module,
		link:    link,
		version: version,
		out:     out,
		dir:     filepath.Join(out, dir),
		stamp: fmt.Sprintf("go.mod %x\ngo.sum %x\ngo %s\nprograms %s\nldflags %s\n",
			sha256.Sum256(mod), sha256.Sum256(sum), runtime.Version(), strings.Join(names, " "), pinned.LDFlags(version)),
	}, nil
}

// minors names the minor versions that have a folder.
func minors() string {
	files, err := filepath.Glob("*/go.mod")
	if err != nil || len(files) == 0 {
		return "of none"
	}
	for i := range files {
		files[i] = filepath.Dir(files[i])
	}
	return strings.Join(files, ", ")
}

// finished reports whether all programs exist and were built from the same sources.
func (p *plan) finished() bool {
	stamp, err := os.ReadFile(filepath.Join(p.dir, stampFile))
	if err != nil || string(stamp) != p.stamp {
		return false
	}
	for _, prog := range programs {
		if _, err := os.Stat(filepath.Join(p.dir, prog.name)); err != nil {
			return false
		}
	}
	target, err := os.Readlink(filepath.Join(p.out, p.link))
	return err == nil && target == filepath.Base(p.dir)
}

// publish renames a finished folder to that of this version, in place of an outdated one.
func (p *plan) publish(finished string) error {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	return os.Rename(finished, p.dir)
}

// relink points the link at this version; relative, so that the tree can move.
func (p *plan) relink() error {
	fresh := filepath.Join(p.out, "."+p.link)
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(p.dir), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(p.out, p.link))
}

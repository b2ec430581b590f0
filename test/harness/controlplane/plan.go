// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// kubernetesModule gives the control plane its version.
	kubernetesModule = "k8s.io/kubernetes"
	// stampFile holds what the binaries beside it were built from.
	stampFile = ".stamp"
	// currentLink points at the folder of the default version.
	currentLink = "current"
)

// Pins are the texts of a go.mod and a go.sum that have the programs as tools.
type Pins struct {
	Mod, Sum []byte
}

// The folder of the go.mod is a module of its own, which no zip of this module contains. A test
// of test/module holds these copies equal to it.
var (
	//go:embed pins/go.mod.txt
	pinnedMod []byte
	//go:embed pins/go.sum.txt
	pinnedSum []byte
)

// Pinned returns the version of Kubernetes that is built without other pins.
func Pinned() (string, error) { return Version(pinnedMod, kubernetesModule) }

// ReadPins reads the pins of a folder.
func ReadPins(dir string) (pins Pins, err error) {
	if pins.Mod, err = os.ReadFile(filepath.Join(dir, "go.mod")); err != nil {
		return Pins{}, fmt.Errorf("reading the pinned modules: %w", err)
	}
	if pins.Sum, err = os.ReadFile(filepath.Join(dir, "go.sum")); err != nil {
		return Pins{}, fmt.Errorf("reading the module checksums: %w", err)
	}
	return pins, nil
}

// extract writes the pins into a new folder, in which go builds.
func (p Pins) extract() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "controlplane"); err != nil {
		return "", fmt.Errorf("creating a folder for the pins: %w", err)
	}
	for name, text := range map[string][]byte{"go.mod": p.Mod, "go.sum": p.Sum} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", errors.Join(fmt.Errorf("writing the pins: %w", err), os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// plan has the options with their defaults, the version to build and its folder.
type plan struct {
	Options
	version string // of Kubernetes, as in v1.36.3
	dir     string // folder of this version, below Out
	stamp   string // changes when a rebuild is needed
}

func (o Options) goCmd() string { return cmp.Or(o.Go, "go") }

func newPlan(o Options) (*plan, error) {
	if len(o.Pins.Mod) == 0 {
		o.Pins = Pins{Mod: pinnedMod, Sum: pinnedSum}
	}
	o.Link = cmp.Or(o.Link, currentLink)
	version, err := Version(o.Pins.Mod, kubernetesModule)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, prog := range programs {
		names = append(names, prog.name+"="+prog.pkg)
	}
	return &plan{
		Options: o,
		version: version,
		dir:     filepath.Join(o.Out, fmt.Sprintf("%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)),
		stamp: fmt.Sprintf("go.mod %x\ngo.sum %x\ngo %s\nprograms %s\nldflags %s\n", sha256.Sum256(o.Pins.Mod),
			sha256.Sum256(o.Pins.Sum), runtime.Version(), strings.Join(names, " "), ldFlags(version)),
	}, nil
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
	target, err := os.Readlink(filepath.Join(p.Out, p.Link))
	return err == nil && target == filepath.Base(p.dir)
}

// publish renames a finished folder to that of this version, in place of an outdated one, and points the link at it;
// relative, so that the tree can move.
func (p *plan) publish(finished string) error {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	if err := os.Rename(finished, p.dir); err != nil {
		return err
	}
	fresh := filepath.Join(p.Out, "."+p.Link)
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(p.dir), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(p.Out, p.Link))
}

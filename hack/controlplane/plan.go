package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// kubernetesModule gives the control plane its version.
	kubernetesModule = "k8s.io/kubernetes"
	// stampFile holds what the binaries beside it were built from.
	stampFile = ".stamp"
	// currentLink points at the folder of the default version.
	currentLink = "current"
)

// plan is what is to be built, where, and what it is built from.
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
		return nil, fmt.Errorf("no modules are pinned for Kubernetes %s: hack/controlplane has the folders %s", minor, pinned())
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pinned modules: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("reading the module checksums: %w", err)
	}
	version, err := requiredVersion(mod, kubernetesModule)
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
			sha256.Sum256(mod), sha256.Sum256(sum), runtime.Version(), strings.Join(names, " "), ldflags(version)),
	}, nil
}

// pinned names the minor versions that have a folder.
func pinned() string {
	files, err := filepath.Glob("*/go.mod")
	if err != nil || len(files) == 0 {
		return "of none"
	}
	for i := range files {
		files[i] = filepath.Dir(files[i])
	}
	return strings.Join(files, ", ")
}

// requiredVersion finds the version of module in the text of a go.mod.
func requiredVersion(mod []byte, module string) (string, error) {
	lines := bufio.NewScanner(bytes.NewReader(mod))
	for lines.Scan() {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "require "))
		if len(words) >= 2 && words[0] == module && strings.HasPrefix(words[1], "v") {
			return words[1], nil
		}
	}
	return "", fmt.Errorf("finding %s in go.mod: no such requirement", module)
}

// ldflags stamps the version into each program as a release build does: without
// it kubeadm and kubelet refuse to work with each other, and kubectl version
// prints no version. The values are fixed so that builds can be repeated.
func ldflags(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	flags := []string{"-s", "-w"}
	for _, kv := range [][2]string{
		{"gitVersion", version},
		{"gitMajor", major},
		{"gitMinor", minor},
		{"gitTreeState", "clean"},
		{"gitCommit", "unknown"},
		{"buildDate", "1970-01-01T00:00:00Z"},
	} {
		flags = append(flags, "-X", "k8s.io/component-base/version."+kv[0]+"="+kv[1])
	}
	return strings.Join(flags, " ")
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

func writeAtomically(path string, content []byte) error {
	if err := os.WriteFile(path+".unfinished", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".unfinished", path)
}

// lockPoll is how often a run that has to wait looks whether it may go on.
const lockPoll = 200 * time.Millisecond

// lock makes this the only run that builds into out. The kernel releases the lock with the
// death of its holder. While another run holds the lock it waits, and logs that.
func lock(ctx context.Context, out string, log io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("creating the output folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(out, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for waited := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// Closing the file gives the lock back.
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", out, err), file.Close())
		}
		if !waited {
			waited = true
			fmt.Fprintln(log, "controlplane: another run is building at this moment; waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("interrupted while waiting for the other run"), file.Close())
		case <-poll.C:
		}
	}
}

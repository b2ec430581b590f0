package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// program is one that a release has a binary and an image of.
type program struct {
	name, pkg string
	image     string // below the registry
	ports     []string
}

var (
	manager = program{name: "manager", pkg: ".", image: "leasehold"}
	viewer  = program{name: "viewer", pkg: "./controllers/markdownview/viewer", image: "leasehold-viewer",
		ports: []string{"3000/tcp"}}
	programs = []program{manager, viewer}
)

// architectures of the binaries and images, all for Linux.
var architectures = []string{"amd64", "arm64"}

// binary is the name of a program's file.
func (p program) binary(arch string) string { return p.name + "-linux-" + arch }

// release is one that is being made.
type release struct {
	options

	commit string
	time   time.Time // of the commit: what all files are dated
	work   string    // is removed at the end
	clone  string    // the commit, checked out and tagged
	dist   string    // becomes out
	log    io.Writer
}

// newRelease clones the commit and tags it there, where the tag harms nothing.
func newRelease(ctx context.Context, o options, commit string, log io.Writer) (_ *release, err error) {
	r := &release{options: o, commit: commit, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.cleanUp())
		}
	}()
	if r.out, err = filepath.Abs(o.out); err != nil {
		return nil, fmt.Errorf("resolving %s: %w", o.out, err)
	}
	// Beside the folder, as a rename does not cross file systems.
	if r.dist, err = os.MkdirTemp(filepath.Dir(r.out), ".dist-"); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	if err := os.Chmod(r.dist, 0o755); err != nil {
		return nil, fmt.Errorf("opening the folder to others: %w", err)
	}
	if r.work, err = os.MkdirTemp("", "release-"); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	r.clone = filepath.Join(r.work, "source")
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-tags", "--no-checkout", "--config=core.autocrlf=false", o.source, r.clone},
		{"-C", r.clone, "checkout", "--quiet", "--detach", commit},
		{"-C", r.clone, "-c", "tag.gpgSign=false", "tag", o.version},
	} {
		if _, err := output(ctx, o.git, args...); err != nil {
			return nil, fmt.Errorf("cloning the commit: %w", err)
		}
	}
	seconds, err := output(ctx, o.git, "-C", r.clone, "log", "-1", "--format=%ct")
	if err != nil {
		return nil, fmt.Errorf("reading the commit's time: %w", err)
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the commit's time: %w", err)
	}
	r.time = time.Unix(epoch, 0).UTC()
	return r, nil
}

// cleanUp removes what is not the release.
func (r *release) cleanUp() error {
	var errs []error
	for _, dir := range []string{r.work, r.dist} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// make fills the folder. The sums come last, as they are of all other files.
func (r *release) make(ctx context.Context) error {
	digests := map[string]string{}
	for _, p := range programs {
		for _, arch := range architectures {
			fmt.Fprintf(r.log, "release: building %s\n", p.binary(arch))
			if err := r.build(ctx, p, arch); err != nil {
				return err
			}
			if err := r.writeSBOM(p, arch); err != nil {
				return err
			}
		}
		digest, err := r.writeImage(p)
		if err != nil {
			return err
		}
		digests[p.name] = digest
		fmt.Fprintf(r.log, "release: image %s@%s\n", r.repository(p), digest)
	}
	if err := r.writeManifests(ctx, digests); err != nil {
		return err
	}
	if err := r.writeChart(ctx, digests); err != nil {
		return err
	}
	return writeSums(r.dist)
}

// build compiles a program and checks what the Go command stamped into it.
func (r *release) build(ctx context.Context, p program, arch string) error {
	path := filepath.Join(r.dist, p.binary(arch))
	env := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off", "GOEXPERIMENT=", "GODEBUG=",
	}
	if _, err := outputIn(ctx, r.clone, env, r.goCmd, "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", path,
		p.pkg); err != nil {
		return fmt.Errorf("building %s: %w", p.binary(arch), err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the build info: %w", err)
	}
	if info.Main.Version != r.version {
		return fmt.Errorf("%s has version %s and not %s: from v2 on the module's path has to end in the major version",
			p.binary(arch), info.Main.Version, r.version)
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && setting.Value != r.commit || setting.Key == "vcs.modified" &&
			setting.Value != "false" {
			return fmt.Errorf("%s has %s %s, and is to be of commit %s", p.binary(arch), setting.Key, setting.Value, r.commit)
		}
	}
	return nil
}

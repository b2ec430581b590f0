package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	debootstrap = "/usr/sbin/debootstrap"
	keyring     = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// suite is Debian 12: its systemd still runs on hosts with cgroup v1, and on
	// those with v2.
	suite = "bookworm"
)

// packages of a node, beyond what every Debian has.
var packages = []string{
	"systemd", "bash", "procps", "util-linux", "mount", "kmod", "jq",
	"runc", "libseccomp2", "pigz",
	"conntrack", "ethtool", "iproute2", "iptables", "nftables", "socat",
	"ca-certificates", "curl",
}

// unwanted is what a node never reads, and what the container runtime mounts.
var unwanted = []string{
	"dev/*", "proc/*", "sys/*",
	"var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*",
	"usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*",
}

// rootImage names the image of the root file system after what is in it, so
// that a change of anything else does not make it anew.
func rootImage() string {
	sum := sha256.Sum256([]byte(suite + strings.Join(packages, ",") + strings.Join(unwanted, ",")))
	return fmt.Sprintf("leasehold-node-root:%s-%x", suite, sum[:6])
}

func (p *plan) haveRoot(ctx context.Context) bool {
	_, err := output(ctx, p.docker, "image", "inspect", "--format", "{{.Id}}", p.root)
	return err == nil
}

// makeRoot makes the root file system and imports it as an image, unless it is there.
func (p *plan) makeRoot(ctx context.Context, log io.Writer) error {
	if p.haveRoot(ctx) {
		fmt.Fprintf(log, "root file system: %s is there\n", p.root)
		return nil
	}
	// Below out, not in the system's folder for temporary files: that one is often
	// mounted so that devices and programs on it do not work.
	dir, err := os.MkdirTemp(p.out, "root-")
	if err != nil {
		return fmt.Errorf("creating the folder of the root file system: %w", err)
	}
	err = watched(log, "root file system (debootstrap "+suite+")", func() error {
		args := p.asRoot(debootstrapArgs(dir, os.Getenv("DEBIAN_MIRROR"))...)
		if err := quietly(command(ctx, args[0], args[1:]...)); err != nil {
			return fmt.Errorf("making the root file system: %w", err)
		}
		args = p.asRoot(tarArgs(dir)...)
		id, err := piped(command(ctx, args[0], args[1:]...), command(ctx, p.docker, "import", "-"))
		if err != nil {
			return fmt.Errorf("importing the root file system: %w", err)
		}
		// It has its name only now: the import of half an archive can succeed.
		if _, err := output(ctx, p.docker, "tag", id, p.root); err != nil {
			return fmt.Errorf("naming the image of the root file system: %w", err)
		}
		return nil
	})
	// After an interrupt, too. If debootstrap left a mount, it is not emptied.
	args := p.asRoot("rm", "-rf", "--one-file-system", dir)
	if failed := quietly(command(context.WithoutCancel(ctx), args[0], args[1:]...)); failed != nil {
		err = errors.Join(err, fmt.Errorf("removing %s: %w", dir, failed))
	}
	return err
}

func (p *plan) asRoot(args ...string) []string {
	return slices.Concat(p.sudo, args)
}

// debootstrapArgs is the command that fills dir. Without a mirror debootstrap takes its own.
func debootstrapArgs(dir, mirror string) []string {
	args := []string{debootstrap, "--variant=minbase", "--force-check-gpg", "--keyring=" + keyring,
		"--include=" + strings.Join(packages, ","), suite, dir}
	if mirror != "" {
		args = append(args, mirror)
	}
	return args
}

// tarArgs is the command that packs dir.
func tarArgs(dir string) []string {
	args := []string{"tar", "--numeric-owner", "-C", dir}
	for _, pattern := range unwanted {
		args = append(args, "--exclude=./"+pattern)
	}
	return append(args, "-c", ".")
}

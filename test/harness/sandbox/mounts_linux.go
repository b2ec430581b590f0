// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mounter makes mounts in the mount namespace of its thread.
type mounter struct {
	folder string
	// own are the devices of the file systems that it mounted, in which it may create targets.
	own map[uint64]bool
}

func mountAll(o Options) error {
	// No mount may appear on the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	m := &mounter{folder: o.Folder, own: map[uint64]bool{}}
	// Open files lead to what a mount has hidden meanwhile.
	var mounts []openMount
	defer func() {
		for _, f := range mounts {
			_ = unix.Close(f.file) // it was only a path
		}
	}()
	for _, mount := range o.Mounts {
		f, err := openPath(mount.Source)
		if err != nil {
			return fmt.Errorf("mounting %s: %w", mount.Target, err)
		}
		mounts = append(mounts, openMount{Mount: mount, file: f})
	}
	for _, path := range o.Keep {
		f, err := openPath(path)
		if err != nil {
			return fmt.Errorf("keeping %s: %w", path, err)
		}
		mounts = append(mounts, openMount{Mount: Mount{Source: path, Target: path}, file: f, keeps: true})
	}
	for _, mount := range mounts {
		if err := m.mount(mount); err != nil {
			return fmt.Errorf("mounting %s: %w", mount.Target, err)
		}
	}
	return removeFormerRoot()
}

type openMount struct {
	Mount
	file  int
	keeps bool // it is only made if its target is hidden
}

func openPath(path string) (int, error) {
	f, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

func procPath(file int, elements ...string) string {
	return filepath.Join(append([]string{fmt.Sprintf("/proc/thread-self/fd/%d", file)}, elements...)...)
}

func (m *mounter) mount(o openMount) error {
	source := procPath(o.file)
	var is, want unix.Stat_t
	if err := unix.Stat(source, &want); err != nil {
		return err
	}
	if err := unix.Stat(o.Target, &is); o.keeps && err == nil && is.Dev == want.Dev && is.Ino == want.Ino {
		return nil
	}
	target, err := m.target(filepath.Clean(o.Target), want.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", o.Source, err)
	}
	if !o.ReadOnly {
		return nil
	}
	var status unix.Statfs_t
	if err := unix.Statfs(target, &status); err != nil {
		return err
	}
	// In a user namespace these may not be taken away. Their values are those of mount(2).
	kept := uintptr(status.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC |
		unix.MS_NOATIME | unix.MS_NODIRATIME)
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, "")
}

// target returns the path without symbolic links, and creates it if it does not exist.
func (m *mounter) target(path string, isFolder bool) (string, error) {
	existing := path
	for {
		if _, err := os.Stat(existing); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		existing = filepath.Dir(existing)
	}
	resolved, err := filepath.EvalSymlinks(existing)
	if err != nil {
		return "", err
	}
	rest := strings.TrimPrefix(path, existing)
	if rest == "" {
		return resolved, nil
	}
	if err := m.makeOwn(resolved); err != nil {
		return "", err
	}
	created := filepath.Join(resolved, rest)
	if isFolder {
		return created, os.MkdirAll(created, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(created), 0o755); err != nil {
		return "", err
	}
	return created, os.WriteFile(created, nil, 0o600)
}

// makeOwn puts a tmpfs with the same entries in the place of a folder.
func (m *mounter) makeOwn(folder string) error {
	var status unix.Stat_t
	if err := unix.Stat(folder, &status); err != nil {
		return err
	}
	if m.own[status.Dev] {
		return nil
	}
	before, err := openPath(folder)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(before) }()
	place := folder
	if folder == "/" {
		// Nothing can be mounted over the root: a new one takes its place.
		if place = m.folder; place == "" {
			return errors.New("it is directly below /, and there is no folder to make a root in")
		}
	}
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, fmt.Sprintf("mode=%o", status.Mode&0o7777)); err != nil {
		return fmt.Errorf("mounting a tmpfs at %s: %w", place, err)
	}
	if err := bindEntries(before, place); err != nil {
		return err
	}
	if folder == "/" {
		if err := changeRoot(place); err != nil {
			return fmt.Errorf("changing the root: %w", err)
		}
	}
	if err := unix.Stat(folder, &status); err != nil {
		return err
	}
	m.own[status.Dev] = true
	return nil
}

func bindEntries(before int, place string) error {
	entries, err := os.ReadDir(procPath(before))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := bindEntry(procPath(before, entry.Name()), filepath.Join(place, entry.Name()), entry.Type()); err != nil {
			// Other programs may have removed it meanwhile.
			if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("binding %s: %w", entry.Name(), err)
			}
		}
	}
	return nil
}

func bindEntry(from, to string, kind fs.FileMode) error {
	switch {
	case kind&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case kind.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	default:
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			return err
		}
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

// formerRoot is where the former root is until all mounts are made.
const formerRoot = "/.former-root"

// changeRoot makes a mount the root of the namespace.
func changeRoot(place string) error {
	if err := os.Mkdir(place+formerRoot, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(place, place+formerRoot); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func removeFormerRoot() error {
	if _, err := os.Stat(formerRoot); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unix.Unmount(formerRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("removing the former root: %w", err)
	}
	return os.Remove(formerRoot)
}

// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Version finds the version of module in the text of a go.mod. A module that it does not
// require is an error.
func Version(mod []byte, module string) (string, error) {
	line := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`)
	found := line.FindSubmatch(mod)
	if found == nil {
		return "", fmt.Errorf("finding %s in go.mod: no such requirement", module)
	}
	return string(found[1]), nil
}

// ldFlags strips a program of Kubernetes and stamps the version into it as a release build
// does: without it kubeadm and kubelet refuse to work with each other, and kubectl version
// prints no version. The values are fixed so that builds can be repeated, and so that all
// builds share Go's build cache.
func ldFlags(version string) string {
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

// lockPoll is the interval at which a waiting run tries to get the lock.
const lockPoll = 200 * time.Millisecond

// lock makes this the only run that builds into out. The kernel releases the lock with the
// death of its holder. While another run holds the lock, it waits, and logs that under the
// name of the program. It returns an error when the context ends first.
func lock(ctx context.Context, out, program string, log io.Writer) (unlock func(), err error) {
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
			fmt.Fprintf(log, "%s: another run is building at this moment; waiting for it\n", program)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for the other run: %w", ctx.Err()), file.Close())
		case <-poll.C:
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// AuditLog updates the local copy of the audit log and returns its path. It copies only new lines,
// so it can be called often. The API server writes a line after it has answered.
func (c *Cluster) AuditLog(ctx context.Context) (path string, err error) {
	c.audit.Lock()
	defer c.audit.Unlock()
	path = filepath.Join(c.options.Dir, "audit.log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, fs.FileMode(0o644))
	if err != nil {
		return "", fmt.Errorf("opening the copy of the audit log: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("closing the copy of the audit log: %w", closeErr)
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("measuring the copy of the audit log: %w", err)
	}
	// The log belongs to root on the node.
	cmd := exec.CommandContext(ctx, "docker", "exec", c.controlPlaneNode(), "tail", "-c",
		fmt.Sprintf("+%d", info.Size()+1), auditPath)
	cmd.Stdout = file
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("copying the audit log: %w", err)
	}
	return path, nil
}

// controlPlaneNode returns kind's name for the first node.
func (c *Cluster) controlPlaneNode() string { return c.options.Name + "-control-plane" }

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// run runs a command and returns its standard output. An error has its standard error.
func run(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running %s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out.String(), nil
}

// exists reports whether kind lists a cluster of this name.
func (c *Cluster) exists(ctx context.Context) (bool, error) {
	names, err := run(ctx, c.options.Kind, "get", "clusters")
	if err != nil {
		return false, fmt.Errorf("listing clusters: %w", err)
	}
	return slices.Contains(strings.Fields(names), c.options.Name), nil
}

// load copies the images from the local engine into all nodes.
func (c *Cluster) load(ctx context.Context) error {
	if len(c.options.Images) == 0 {
		return nil
	}
	c.logf("loading images %s", strings.Join(c.options.Images, ", "))
	argv := []string{c.options.Kind, "load", "docker-image", "--name", c.options.Name}
	if _, err := run(ctx, append(argv, c.options.Images...)...); err != nil {
		return fmt.Errorf("loading images: %w", err)
	}
	return nil
}

// Load copies an image from the local engine into one node.
func (c *Cluster) Load(ctx context.Context, node, image string) error {
	_, err := run(ctx, c.options.Kind, "load", "docker-image", "--name", c.options.Name, "--nodes", node, image)
	if err != nil {
		return fmt.Errorf("loading image %s into %s: %w", image, node, err)
	}
	return nil
}

// Exec runs a command on a node, as root, and returns its standard output.
func (c *Cluster) Exec(ctx context.Context, node string, argv ...string) (string, error) {
	out, err := run(ctx, slices.Concat([]string{"docker", "exec", node}, argv)...)
	if err != nil {
		return out, fmt.Errorf("on node %s: %w", node, err)
	}
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0

// Package chart renders the Helm chart with the helm that hack/tools pins.
package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Chart is the chart of one checkout.
type Chart struct {
	root string
	helm string
}

// Open returns the chart of the checkout at root. It does not build helm, which takes minutes.
func Open(root string) (*Chart, error) {
	helm, err := filepath.Abs(filepath.Join(root, "bin", "tools", "helm"))
	if err != nil {
		return nil, fmt.Errorf("finding helm: %w", err)
	}
	if _, err := os.Stat(helm); err != nil {
		return nil, fmt.Errorf("finding helm, which `make %s` builds: %w", helm, err)
	}
	return &Chart{root: root, helm: helm}, nil
}

// Template returns the objects of a release in the namespace.
func (c *Chart) Template(ctx context.Context, namespace string, args ...string) ([]byte, error) {
	return c.TemplateOf(ctx, c.dir(), namespace, args...)
}

// TemplateOf returns the objects of a release of the chart in a folder, which may depend on this one.
func (c *Chart) TemplateOf(ctx context.Context, dir, namespace string, args ...string) ([]byte, error) {
	args = append([]string{"template", "leasehold", dir, "--namespace", namespace}, args...)
	return output(exec.CommandContext(ctx, c.helm, args...))
}

// Lint returns what `helm lint` reports. A warning is an error.
func (c *Chart) Lint(ctx context.Context, args ...string) ([]byte, error) {
	return output(exec.CommandContext(ctx, c.helm, append([]string{"lint", "--strict", c.dir()}, args...)...))
}

// ValueFiles returns the files with the sets of values that tests render.
func (c *Chart) ValueFiles() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(c.root, "test", "internal", "chart", "testdata", "values", "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("finding sets of values: there are none")
	}
	return files, err
}

func (c *Chart) dir() string { return filepath.Join(c.root, "config", "chart") }

func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("running %s: %w: %s%s", filepath.Base(cmd.Path), err, &stderr, out)
	}
	return out, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"leasehold.dev/test/harness/controlplane"
	"leasehold.dev/test/harness/env"
)

const assetsVariable = "KUBEBUILDER_ASSETS"

// ensureControlPlane makes sure that there is a control plane to start. Without one it builds the
// embedded version into the user's cache folder. What the user names is never replaced.
func ensureControlPlane(ctx context.Context, output io.Writer) error {
	dir, err := env.FindAssets("")
	if errors.Is(err, env.ErrNoAssets) && os.Getenv(assetsVariable) == "" {
		dir, err = buildControlPlane(ctx, output)
	}
	if err != nil {
		return err
	}
	fmt.Fprint(output, collectionNotice(dir))
	return nil
}

// buildControlPlane returns the folder, and lets this process and its children find it.
func buildControlPlane(ctx context.Context, output io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "prove", "controlplane")
	dir, err = controlplane.Build(ctx, controlplane.Options{Out: dir, Log: output})
	if err != nil {
		return "", fmt.Errorf("building the control plane: %w", err)
	}
	return dir, os.Setenv(assetsVariable, dir)
}

// collectionNotice is a line about what a folder without kube-controller-manager cannot show, or "".
func collectionNotice(dir string) string {
	const program = "kube-controller-manager"
	if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
		return ""
	}
	return fmt.Sprintf("%s has no %s: nothing collects children of deleted owners or empties deleted namespaces, "+
		"so end-state, single-lifecycle and convergence say nothing about those objects\n", dir, program)
}

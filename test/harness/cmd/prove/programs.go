// SPDX-License-Identifier: Apache-2.0

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
	"leasehold.dev/test/harness/s3server"
)

// The variables that name programs of the user's own. What they name is never replaced.
const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	helmVariable   = "HELM"
	s3Variable     = "S3SERVER"
)

// ensure builds what is missing into the user's cache folder: the control plane, and helm and the S3 server if
// they are needed. Each build begins with a line that has its time.
func ensure(ctx context.Context, helm, s3 bool, output io.Writer) error {
	if err := ensureControlPlane(ctx, output); err != nil {
		return err
	}
	if helm {
		if err := ensureHelm(ctx, output); err != nil {
			return err
		}
	}
	if s3 {
		return ensureS3Server(ctx, output)
	}
	return nil
}

// ensureControlPlane makes sure that there is a control plane to start.
func ensureControlPlane(ctx context.Context, output io.Writer) error {
	dir, err := env.FindAssets()
	if errors.Is(err, env.ErrNoAssets) && os.Getenv(assetsVariable) == "" {
		dir, err = built(assetsVariable, func(cache string) (string, error) {
			out := filepath.Join(cache, "controlplane")
			return controlplane.Build(ctx, controlplane.Options{Out: out, Log: output})
		})
	}
	if err != nil {
		return err
	}
	fmt.Fprint(output, collectionNotice(dir))
	return nil
}

func ensureHelm(ctx context.Context, output io.Writer) error {
	_, err := env.FindHelm()
	return ensureTool(ctx, controlplane.Helm, helmVariable, err, env.ErrNoHelm, output)
}

func ensureS3Server(ctx context.Context, output io.Writer) error {
	_, err := s3server.Find()
	return ensureTool(ctx, controlplane.S3Server, s3Variable, err, s3server.ErrMissing, output)
}

// ensureTool builds a tool if it was not found because it is missing.
func ensureTool(ctx context.Context, t controlplane.Tool, variable string, found, missing error, out io.Writer) error {
	if !errors.Is(found, missing) || os.Getenv(variable) != "" {
		return found
	}
	_, err := built(variable, func(cache string) (string, error) {
		return controlplane.Install(ctx, t, controlplane.Options{Out: filepath.Join(cache, "tools"), Log: out})
	})
	return err
}

// built builds below the cache folder, and lets this process and its children find the result by
// the variable.
func built(variable string, build func(cache string) (string, error)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	path, err := build(filepath.Join(cache, "prove"))
	if err != nil {
		return "", err
	}
	return path, os.Setenv(variable, path)
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

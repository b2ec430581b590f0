// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/program"
)

const (
	// fieldOwner is the field manager of Apply.
	fieldOwner = client.FieldOwner("harness")
	// establishTimeout bounds the wait for a kind to be served.
	establishTimeout = 30 * time.Second
	establishPoll    = 50 * time.Millisecond
)

// Kubectl runs kubectl as the administrator and returns its output. An error contains the message
// of kubectl.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	path, err := c.KubectlPath()
	if err != nil {
		return nil, err
	}
	return output(ctx, path, nil, append([]string{"--kubeconfig=" + c.kubeconfig}, args...)...)
}

// output runs kubectl or helm and returns its output. An error has the program's own message.
func output(ctx context.Context, path string, input []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &problems
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("running %s %q: %w: %s", filepath.Base(path), args, err,
			bytes.TrimSpace(problems.Bytes()))
	}
	return out.Bytes(), nil
}

// KubectlPath returns the path of a script that runs the kubectl of the control plane, or for an
// existing cluster the one on the PATH. Its cache is in the control plane's folder.
func (c *ControlPlane) KubectlPath() (string, error) {
	_, err := kubectl(c.assets)
	return filepath.Join(c.dir, "kubectl"), err
}

// wrapKubectl writes the script of KubectlPath. By default the cache is that of an address, where another control
// plane, without these kinds, may have listened. A kuberc file may change what a command does.
func (c *ControlPlane) wrapKubectl() error {
	binary, err := kubectl(c.assets)
	if err == nil { // KubectlPath returns the error to callers that need it
		text := fmt.Sprintf("#!/bin/sh\nKUBERC=off KUBECACHEDIR=%s exec %s \"$@\"\n",
			program.Quote(filepath.Join(c.dir, "kubectl-cache")), program.Quote(binary))
		if err := os.WriteFile(filepath.Join(c.dir, "kubectl"), []byte(text), 0o700); err != nil {
			return fmt.Errorf("wrapping kubectl: %w", err)
		}
	}
	return nil
}

// turn orders objects for an apply; equal ones keep their order.
func turn(obj *unstructured.Unstructured) int {
	switch obj.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return 3
	default:
		return 2
	}
}

// Apply writes the objects with server-side apply in the given order. It takes the ownership of
// fields from other managers. After consecutive CustomResourceDefinitions it waits until the new
// kinds are served. It stops at the first error. It does not change the objects.
func (c *ControlPlane) Apply(ctx context.Context, objs ...*unstructured.Unstructured) error {
	var pending []*unstructured.Unstructured
	for _, obj := range objs {
		if obj.GetKind() != "CustomResourceDefinition" {
			if err := c.established(ctx, pending); err != nil {
				return err
			}
			pending = nil
		}
		applied := obj.DeepCopy()
		err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
		}
		if obj.GetKind() == "CustomResourceDefinition" {
			pending = append(pending, applied)
		}
	}
	return c.established(ctx, pending)
}

// established waits until the API server serves the kinds that crds define.
func (c *ControlPlane) established(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		err := wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true,
			func(ctx context.Context) (bool, error) {
				if err := c.client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
					return false, err
				}
				result, err := status.Compute(crd)
				return err == nil && result.Status == status.CurrentStatus, err
			})
		if err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s to be established: %w", crd.GetName(), err)
		}
	}
	return nil
}

package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fieldOwner is the field manager of Apply.
	fieldOwner = client.FieldOwner("harness")
	// establishTimeout bounds the wait for a kind to be served.
	establishTimeout = 30 * time.Second
	establishPoll    = 50 * time.Millisecond
)

// Kubectl runs kubectl as the administrator and returns its output. An error has kubectl's own
// message.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	path, err := c.KubectlPath()
	if err != nil {
		return nil, err
	}
	return runKubectl(ctx, path, append([]string{"--kubeconfig=" + c.kubeconfig}, args...)...)
}

func runKubectl(ctx context.Context, path string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("running kubectl %q: %w: %s", args, err, bytes.TrimSpace(said.Bytes()))
	}
	return out.Bytes(), nil
}

// KubectlPath returns the kubectl that belongs to the control plane, or for an
// existing cluster the one found on the PATH.
func (c *ControlPlane) KubectlPath() (string, error) { return kubectl(c.assets) }

// Render runs kustomize on dir and returns the objects in an order in which
// they can be applied: namespaces, then CustomResourceDefinitions, then
// everything else, and what guards the admission of others at the end.
func (c *ControlPlane) Render(ctx context.Context, dir string) ([]*unstructured.Unstructured, error) {
	return render(ctx, c.assets, dir)
}

// Render is ControlPlane.Render for when none has been started yet. The kubectl
// is that of the control plane which Start would take: see Options.AssetsDir.
func Render(ctx context.Context, assetsDir, dir string) ([]*unstructured.Unstructured, error) {
	assets, err := FindAssets(assetsDir)
	if err != nil && os.Getenv(existingVariable) != "true" {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	return render(ctx, assets, dir)
}

func render(ctx context.Context, assets, dir string) ([]*unstructured.Unstructured, error) {
	path, err := kubectl(assets)
	if err != nil {
		return nil, err
	}
	text, err := runKubectl(ctx, path, "kustomize", dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	objs, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("decoding what kustomize made of %s: %w", dir, err)
	}
	slices.SortStableFunc(objs, func(a, b *unstructured.Unstructured) int { return turn(a) - turn(b) })
	return objs, nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		switch err := decoder.Decode(obj); {
		case errors.Is(err, io.EOF):
			return objs, nil
		case err != nil:
			return nil, err
		case len(obj.Object) > 0: // empty between two separators
			objs = append(objs, obj)
		}
	}
}

// turn is when an object is applied; equal ones keep the order they came in.
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

// Apply writes the objects by server-side apply in the given order, taking over
// fields of other managers as an administrator would. After a run of
// CustomResourceDefinitions it waits until the new kinds are served. It stops
// at the first error. The objects are not changed.
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
		err := wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true, func(ctx context.Context) (bool, error) {
			if err := c.client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return false, err
			}
			return hasCondition(crd, "Established"), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s to be established: %w", crd.GetName(), err)
		}
	}
	return nil
}

// hasCondition reports whether a condition of this type is True.
func hasCondition(obj *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions") // absent or odd: not true
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == kind && condition["status"] == "True"
	})
}

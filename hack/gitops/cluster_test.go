// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	"github.com/minio/minio-go/v7"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/s3server"
)

const root = "../.."

// cluster is a control plane on which the tests act as Flux does, and as an administrator.
type cluster struct {
	client.Client
	plane *env.ControlPlane
	flux  *ssa.ResourceManager
}

// newCluster starts a control plane whose Deployments get Pods that run nothing.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	g, lasting := NewWithT(t), context.WithoutCancel(t.Context())
	log.SetLogger(logr.Discard())
	plane, err := env.Start(lasting, env.Options{Controllers: env.WorkloadControllers})
	if errors.Is(err, env.ErrExistingCluster) {
		t.Skip("the installation would replace the one that is there")
	}
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(plane.Stop()).To(Succeed()) })
	node, err := plane.StartNode(lasting, env.NodeOptions{StandIn: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(node.Stop)
	c := &cluster{plane: plane}
	c.Client, err = client.New(plane.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	c.flux = ssa.NewResourceManager(c.Client, polling.NewStatusPoller(c.Client, c.RESTMapper(), polling.Options{}),
		ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	return c
}

// prepared returns the objects as Flux's kustomize-controller applies them.
func (c *cluster) prepared(t *testing.T, name string, o env.InstallOptions) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	objects, _, err := o.Render(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).NotTo(BeEmpty())
	c.flux.SetOwnerLabels(objects, name, "flux-system")
	g.Expect(normalize.UnstructuredList(objects)).To(Succeed())
	return objects
}

// apply applies objects as Flux does, and returns the names of the written objects.
func (c *cluster) apply(ctx context.Context, objects []*unstructured.Unstructured) (written []string, err error) {
	changes, err := c.applyAll(ctx, objects)
	if err != nil {
		return nil, err
	}
	for _, entry := range changes.Entries {
		if entry.Action != ssa.UnchangedAction {
			written = append(written, entry.Subject)
		}
	}
	return written, nil
}

func (c *cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) (*ssa.ChangeSet, error) {
	copies := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		copies[i] = o.DeepCopy()
	}
	return c.flux.ApplyAllStaged(ctx, copies, ssa.DefaultApplyOptions())
}

// wait applies and waits, as Flux does for a Kustomization with `wait: true`. What it waits for is what the API server
// returned, because kustomize gives a namespace to admission policies, which have none.
func (c *cluster) wait(ctx context.Context, objects []*unstructured.Unstructured) error {
	changes, err := c.applyAll(ctx, objects)
	if err != nil {
		return err
	}
	return c.flux.WaitForSetWithContext(ctx, changes.ToObjMetadataSet(),
		ssa.WaitOptions{Interval: expect.Poll, Timeout: expect.Long, FailFast: true})
}

// versions returns the resourceVersion of each object, and read each object as it is.
func (c *cluster) versions(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, o := range objects {
		all[utils.FmtUnstructured(o)] = c.read(t, o).GetResourceVersion()
	}
	return all
}

func (c *cluster) read(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	NewWithT(t).Expect(c.Get(t.Context(), client.ObjectKeyFromObject(o), live)).To(Succeed())
	return live
}

// content is what users see of an object, without the status.
func (c *cluster) content(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	fields := c.read(t, o).Object
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(fields, "metadata", field)
	}
	delete(fields, "status")
	return fields
}

// operate starts two replicas of the operator, as o installs it, and waits until they are ready.
func (c *cluster) operate(t *testing.T, o env.InstallOptions) {
	t.Helper()
	g, lasting := NewWithT(t), context.WithoutCancel(t.Context())
	installation, err := c.plane.Install(lasting, o)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(installation.Stop(lasting)).To(Succeed()) })
	for range 2 {
		replica, err := installation.Start(lasting)
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(replica.Ready).WithContext(t.Context()).WithTimeout(expect.Long).WithPolling(expect.Poll).
			Should(Succeed(), func() string { return replica.LogTail(20) })
	}
}

// arguments allow two replicas on one machine, and buckets on it.
func arguments(p env.ReplicaPorts) []string {
	return []string{
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", p.Probe),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", p.Metrics),
		fmt.Sprintf("--webhook-bind-address=127.0.0.1:%d", p.Webhook),
		"--endpoint-allow-cidr=127.0.0.1/32",
	}
}

// samples returns config/samples with its buckets on a server of this machine. Their Secret is no part of it.
func (c *cluster) samples(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	server, err := s3server.Start(context.WithoutCancel(t.Context()), s3server.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	g.Expect(server.Client().MakeBucket(t.Context(), "sample-data", minio.MakeBucketOptions{})).To(Succeed())
	g.Expect(c.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "default", "name": "sample-s3"},
		"stringData": map[string]any{"AWS_ACCESS_KEY_ID": server.Account().AccessKey,
			"AWS_SECRET_ACCESS_KEY": server.Account().SecretKey},
	}})).To(Succeed())
	objects := c.prepared(t, "samples", env.InstallOptions{Manifests: filepath.Join(root, "config", "samples")})
	for _, o := range objects {
		if o.GetKind() == "StorageBucket" {
			g.Expect(unstructured.SetNestedField(o.Object, server.Endpoint(), "spec", "endpoint")).To(Succeed())
		}
	}
	return objects
}

// manager builds the operator.
func manager(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Dir = root
	output, err := build.CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(output))
	return binary
}

// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

// Flux applies everything twice, and the second time writes nothing, before the operator has run and
// after it has completed the webhooks and the samples. Its waits end.
func TestFlux(t *testing.T) {
	binary := manager(t)
	for name, o := range map[string]env.InstallOptions{
		"config/default": {Manifests: filepath.Join(root, "config", "default")},
		"an overlay":     {Manifests: overlay(t)},
		"the chart": {Manifests: filepath.Join(root, "config", "chart"),
			Chart: env.Chart{Release: "leasehold", Namespace: "leasehold-system"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, c := NewWithT(t), newCluster(t)
			o.Binary, o.Args = binary, arguments
			install := c.prepared(t, "leasehold", o)
			g.Expect(c.apply(t.Context(), install)).To(HaveLen(len(install)))
			g.Expect(c.apply(t.Context(), install)).To(BeEmpty())
			g.Expect(c.wait(t.Context(), install)).To(Succeed())

			c.operate(t, o)
			samples := c.samples(t)
			g.Eventually(func() ([]string, error) { return c.apply(t.Context(), samples) }).WithTimeout(expect.Medium).
				Should(HaveLen(len(samples)), "the API server has the CA of the webhooks a moment later")
			g.Expect(c.wait(t.Context(), samples)).To(Succeed())
			everything := slices.Concat(install, samples)
			before := c.versions(t, atRest(everything))
			g.Expect(c.apply(t.Context(), everything)).To(BeEmpty())
			g.Expect(c.versions(t, atRest(everything))).To(Equal(before))

			for _, sample := range samples {
				g.Expect(health(t, c.read(t, sample).Object)).To(Equal("Healthy"), sample.GetName())
			}
			checkDrift(t, c, everything)
			checkFailure(t, c)
			checkDeletion(t, c, samples)
		})
	}
}

// overlay writes the overlay of docs/operations.md beside a copy of config/, and returns its folder.
func overlay(t *testing.T) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config")
	dir := filepath.Join(config, "overlay")
	text := block(t, "### In another namespace")
	if err := errors.Join(os.CopyFS(config, os.DirFS(filepath.Join(root, "config"))), os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// block returns the first block of a section of docs/operations.md.
func block(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), title+"\n")
	_, section, _ = strings.Cut(section, "```\n")
	block, _, found := strings.Cut(section, "```\n")
	if !found {
		t.Fatalf("docs/operations.md has no block below %q", title)
	}
	return block
}

// atRest leaves out what the operator writes again and again: the status of buckets, which has the time of the last
// probe, and the Lease, which the leader renews.
func atRest(objects []*unstructured.Unstructured) (rest []*unstructured.Unstructured) {
	for _, o := range objects {
		if kind := o.GetKind(); kind != "StorageBucket" && kind != "Lease" {
			rest = append(rest, o)
		}
	}
	return rest
}

// drift is a change by a third client, as a JSON patch.
type drift struct{ kind, name, patch string }

// replaced is a drift of one field.
func replaced(kind, name, path, value string) drift {
	return drift{kind, name, fmt.Sprintf(`[{"op":"replace","path":%q,"value":%s}]`, path, value)}
}

// Flux owns what is in the repository, and the operator what it creates and the CA of its webhooks.
func drifts() (ofFlux, ofOperator []drift) {
	const label = "/metadata/labels/app.kubernetes.io~1name"
	return []drift{
			replaced("Deployment", "", "/spec/replicas", "1"),
			replaced("Secret", "", label, `"another"`),
			replaced("ValidatingAdmissionPolicyBinding", "", label, `"another"`),
			replaced("ValidatingWebhookConfiguration", "", "/webhooks/0/timeoutSeconds", "3"),
			replaced("StorageBucket", "sample", "/spec/probe/periodSeconds", "30"),
			replaced("MarkdownView", "handbook", "/spec/replicas", "1"),
		}, []drift{
			{"MutatingWebhookConfiguration", "", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`},
			replaced("v1 Namespace", "sample-dev", "/metadata/labels/leasehold.dev~1tenant", `"another"`),
			replaced("rbac.authorization.k8s.io/v1 RoleBinding", "sample-dev/leasehold:tenant-admin", "/subjects", "[]"),
			replaced("v1 Service", "default/viewer-handbook", "/spec/selector", `{"a":"b"}`),
		}
}

// find returns the object of a drift: an object that Flux applies, or that the operator created.
func (d drift) find(t *testing.T, applied []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if version, kind, created := strings.Cut(d.kind, " "); created {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		namespace, name, namespaced := strings.Cut(d.name, "/")
		if !namespaced {
			namespace, name = "", d.name
		}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	i := slices.IndexFunc(applied, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == d.kind && (d.name == "" || o.GetName() == d.name)
	})
	if i < 0 {
		t.Fatalf("Flux applies no %s %s", d.kind, d.name)
	}
	return applied[i]
}

// checkDrift changes what Flux owns, and then what the operator owns. The operator corrects its part
// without Flux, and leaves the other part, which Flux corrects without writing anything else.
func checkDrift(t *testing.T, c *cluster, applied []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	ofFlux, ofOperator := drifts()
	wanted := map[*unstructured.Unstructured]map[string]any{}
	change := func(d drift) *unstructured.Unstructured {
		o := d.find(t, applied)
		wanted[o] = c.content(t, o)
		g.Expect(c.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(d.patch)))).To(Succeed())
		return o
	}
	var names []string
	for _, d := range ofFlux {
		names = append(names, utils.FmtUnstructured(c.read(t, change(d))))
	}
	for _, d := range ofOperator {
		o := change(d)
		g.Eventually(func() map[string]any { return c.content(t, o) }).WithTimeout(expect.Medium).
			WithPolling(expect.Poll).Should(Equal(wanted[o]), "the operator corrects %s", d.kind)
	}
	g.Expect(c.apply(t.Context(), applied)).To(ConsistOf(names), "what the operator left to Flux")
	for o, content := range wanted {
		g.Expect(c.content(t, o)).To(Equal(content), utils.FmtUnstructured(o))
	}
	g.Expect(c.wait(t.Context(), applied)).To(Succeed())
	g.Expect(c.apply(t.Context(), applied)).To(BeEmpty())
}

// checkFailure applies a Tenant that only a person can help: Flux's wait ends before its timeout. A
// paused object is suspended for Argo CD.
func checkFailure(t *testing.T, c *cluster) {
	t.Helper()
	g := NewWithT(t)
	taken := object("v1", "Namespace", "taken-a", nil)
	tenant := object("leasehold.dev/v1beta1", "Tenant", "taken", map[string]any{"namespaces": []any{"a"},
		"admins": []any{map[string]any{"kind": "User", "name": "ann"}}})
	for _, o := range []*unstructured.Unstructured{taken, tenant} {
		g.Expect(c.apply(t.Context(), []*unstructured.Unstructured{o})).To(HaveLen(1))
	}
	g.Expect(c.wait(t.Context(), []*unstructured.Unstructured{tenant})).To(MatchError(And(ContainSubstring("Tenant/taken"),
		ContainSubstring("'Failed'"), Not(ContainSubstring("timeout")))))
	g.Expect(health(t, c.read(t, tenant).Object)).To(Equal("Degraded"))

	tenant.SetAnnotations(map[string]string{"leasehold.dev/paused": "true"})
	g.Expect(c.apply(t.Context(), []*unstructured.Unstructured{tenant})).To(HaveLen(1))
	g.Eventually(func() string { return health(t, c.read(t, tenant).Object) }).WithTimeout(expect.Medium).
		Should(Equal("Suspended"))
	tenant.SetAnnotations(nil)
	g.Expect(c.apply(t.Context(), []*unstructured.Unstructured{tenant})).To(HaveLen(1))
	checkDeletion(t, c, []*unstructured.Unstructured{tenant, taken})
}

// checkDeletion prunes objects: Flux's wait for their end ends.
func checkDeletion(t *testing.T, c *cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	changes, err := c.flux.DeleteAll(t.Context(), objects, ssa.DefaultDeleteOptions())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.flux.WaitForSetTermination(changes, ssa.WaitOptions{Interval: expect.Poll, Timeout: expect.Long})).
		To(Succeed())
}

func object(version, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetName(name)
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

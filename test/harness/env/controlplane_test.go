// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespace creates one for a test.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("env")}}
	NewWithT(t).Expect(shared.client.Create(t.Context(), ns)).To(Succeed())
	return ns.Name
}

func configMap(ns, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: owners}}
}

func TestControlPlaneHasControllers(t *testing.T) {
	needsControllers(t)
	t.Parallel()
	g := NewWithT(t)
	g.Expect(shared.HasControllerManager()).To(BeTrue())
	ctx, ns := t.Context(), namespace(t)

	t.Log("objects whose owner is gone are collected")
	owner := configMap(ns, "owner")
	g.Expect(shared.client.Create(ctx, owner)).To(Succeed())
	child := configMap(ns, "child",
		metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})
	g.Expect(shared.client.Create(ctx, child)).To(Succeed())
	g.Expect(shared.client.Delete(ctx, owner)).To(Succeed())
	g.Eventually(func() error { return shared.client.Get(ctx, client.ObjectKeyFromObject(child), child) }, eventually).
		Should(Satisfy(apierrors.IsNotFound))

	t.Log("each namespace gets its ServiceAccount and the certificate authority")
	g.Eventually(func(g Gomega) {
		g.Expect(shared.client.Get(ctx, types.NamespacedName{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{})).
			To(Succeed())
		g.Expect(shared.client.Get(ctx, types.NamespacedName{Namespace: ns, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})).
			To(Succeed())
	}, eventually).Should(Succeed())

	t.Log("ClusterRoles that aggregate others have rules")
	g.Eventually(func(g Gomega) {
		var admin rbacv1.ClusterRole
		g.Expect(shared.client.Get(ctx, types.NamespacedName{Name: "admin"}, &admin)).To(Succeed())
		g.Expect(admin.Rules).NotTo(BeEmpty())
	}, eventually).Should(Succeed())

	t.Log("a deleted namespace goes away")
	deleted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	g.Expect(shared.client.Delete(ctx, deleted)).To(Succeed())
	g.Eventually(func() error { return shared.client.Get(ctx, client.ObjectKeyFromObject(deleted), deleted) }, eventually).
		Should(Satisfy(apierrors.IsNotFound))
}

func TestKubeconfigIsThatOfAnAdministrator(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	info, err := os.Stat(shared.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	out, err := shared.Kubectl(t.Context(), "auth", "can-i", "*", "*", "--all-namespaces")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.TrimSpace(string(out))).To(Equal("yes"))
	_, err = shared.Kubectl(t.Context(), "get", "no-such-kind")
	g.Expect(err).To(MatchError(ContainSubstring(`the server doesn't have a resource type "no-such-kind"`)))
	g.Expect(filepath.Join(shared.Dir(), "kubectl-cache", "discovery")).To(BeADirectory(), "another control plane's cache was read")
	g.Expect(shared.Config().QPS).To(BeNumerically("<", 0), "requests are not to be held back in the client")
}

// audited returns the events of the audit log about requests for name in ns.
func audited(g Gomega, ns, name string) []auditv1.Event {
	text, err := os.ReadFile(shared.AuditLog())
	g.Expect(err).NotTo(HaveOccurred())
	var found []auditv1.Event
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // another test's request, which is being written
		}
		var event auditv1.Event
		g.Expect(json.Unmarshal([]byte(line), &event)).To(Succeed(), line)
		if event.ObjectRef != nil && event.ObjectRef.Namespace == ns && event.ObjectRef.Name == name {
			found = append(found, event)
		}
	}
	return found
}

func TestAuditLogHasWritesAtOnceAndNoSecrets(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)

	t.Log("the line is there when the request has been answered")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}}
	g.Expect(shared.client.Create(ctx, role)).To(Succeed())
	g.Expect(shared.client.Delete(ctx, role)).To(Succeed())
	events := audited(g, ns, "reader")
	g.Expect(events).To(HaveLen(2))
	g.Expect(events[0]).To(gstruct.MatchFields(gstruct.IgnoreExtras, gstruct.Fields{
		"Verb": Equal("create"), "Stage": Equal(auditv1.StageResponseComplete),
		"RequestObject": Not(BeNil()), "ResponseObject": Not(BeNil()),
	}))
	g.Expect(events[1].Verb).To(Equal("delete"))

	t.Log("a Secret is there with its name only")
	const hidden = "do-not-tell"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hush"},
		StringData: map[string]string{"k": hidden}}
	g.Expect(shared.client.Create(ctx, secret)).To(Succeed())
	g.Expect(audited(g, ns, "hush")).To(HaveExactElements(gstruct.MatchFields(gstruct.IgnoreExtras, gstruct.Fields{
		"Verb": Equal("create"), "Level": Equal(auditv1.LevelMetadata), "RequestObject": BeNil(), "ResponseObject": BeNil(),
	})))
}

func TestRightsAreEnforced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "nobody", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets",
			Namespace: "default"},
	}}
	g.Expect(shared.client.Create(t.Context(), review)).To(Succeed())
	g.Expect(review.Status.Allowed).To(BeFalse())
}

func TestSlowStart_ReportsTheCause(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	work := t.TempDir()
	_, err := Start(t.Context(), Options{WorkDir: work, AuditPolicy: []byte("none")})
	g.Expect(err).To(MatchError(ContainSubstring("loading audit policy file")))
	g.Expect(os.ReadDir(work)).To(BeEmpty(), "a start that failed leaves nothing")
}

func TestSlowStop(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cp, err := Start(t.Context(), Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	pids, err := notedBy(cp.watchdog)
	g.Expect(err).NotTo(HaveOccurred())
	began := time.Now()
	g.Expect(cp.Stop()).To(Succeed())
	g.Expect(time.Since(began)).To(BeNumerically("<", 15*time.Second))
	g.Expect(cp.Stop()).To(Succeed())
	for _, pid := range pids {
		g.Expect(alive(pid)).To(BeFalse(), "pid %d", pid)
	}
}

// TestSlowStop_ReportsALostControllerManager: what was expected of it did not happen.
func TestSlowStop_ReportsALostControllerManager(t *testing.T) {
	needsControllers(t)
	t.Parallel()
	g := NewWithT(t)
	cp, err := Start(t.Context(), Options{Controllers: []string{"no-such-controller"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(cp.manager.Ended, eventually).Should(BeClosed())
	g.Expect(cp.Stop()).To(MatchError(ContainSubstring("kube-controller-manager ended by itself")))
}

// touch makes empty files in a folder, which it returns.
func touch(t *testing.T, dir string, files ...string) string {
	t.Helper()
	for _, file := range files {
		path := filepath.Join(dir, file)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, nil, 0o755)).To(Succeed())
	}
	return dir
}

func TestFindAssets(t *testing.T) {
	all := []string{"etcd", "kube-apiserver", "kubectl"}
	set := touch(t, t.TempDir(), all...)
	module, err := filepath.EvalSymlinks(t.TempDir())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	touch(t, module, "go.mod", "deep/below/x", "deep/go.mod")
	versioned := touch(t, filepath.Join(module, "bin", "controlplane", "v1-x"), all...)
	NewWithT(t).Expect(os.Symlink("v1-x", filepath.Join(filepath.Dir(versioned), "current"))).To(Succeed())

	platform := "-" + runtime.GOOS + "-" + runtime.GOARCH
	installed := t.TempDir()
	envtest := func(version string, programs ...string) string {
		return touch(t, filepath.Join(installed, "kubebuilder-envtest", "k8s", version), programs...)
	}
	newest := envtest("1.36.10"+platform, all...)
	envtest("1.36.9"+platform, all...)
	envtest("1.37.0"+platform, "etcd", "kubectl")
	envtest("1.38.0-plan9-mips", all...)
	envtest("latest"+platform, all...)

	for name, tc := range map[string]struct {
		set, wd string
		want    string // empty: ErrNoAssets
		data    string // the folder of setup-envtest is below it
	}{
		"the variable comes first":                  {set, module, set, installed},
		"then the module, through the link":         {"", module, versioned, installed},
		"seen from a module inside it":              {"", filepath.Join(module, "deep", "below"), versioned, installed},
		"then the newest complete of setup-envtest": {"", t.TempDir(), newest, installed},
		"nothing anywhere":                          {"", t.TempDir(), "", t.TempDir()},
		"a folder that was named is not made good":  {t.TempDir(), module, "", installed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv(assetsVariable, tc.set)
			t.Setenv("XDG_DATA_HOME", tc.data)
			t.Chdir(tc.wd)
			got, err := FindAssets()
			if tc.want == "" {
				g.Expect(err).To(MatchError(ErrNoAssets))
				g.Expect(err).To(MatchError(ContainSubstring("make controlplane")))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

// TestExistingCluster uses the shared control plane as a cluster that the harness did not start.
func TestExistingCluster(t *testing.T) {
	g := NewWithT(t)
	t.Setenv(existingVariable, "true")
	t.Setenv("KUBECONFIG", shared.Kubeconfig())
	_, err := Start(t.Context(), Options{})
	g.Expect(err).To(MatchError(ErrExistingCluster), "only a caller that allows it uses a cluster of others")
	cp, err := Start(t.Context(), Options{ExistingCluster: true, CRDs: []string{"testdata/chart/crds"}})
	g.Expect(err).NotTo(HaveOccurred())
	definitions, err := cp.Kubectl(t.Context(), "get", "customresourcedefinitions", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(definitions)).NotTo(ContainSubstring("things.chart.example.org"), "nothing is installed")
	g.Expect(cp.HasControllerManager()).To(BeTrue())
	g.Expect(cp.AuditLog()).To(BeEmpty())
	g.Expect(cp.Config().Host).To(Equal(shared.Config().Host))
	_, err = cp.Install(t.Context(), InstallOptions{Manifests: "testdata/plain"})
	g.Expect(err).To(MatchError(ContainSubstring("unset USE_EXISTING_CLUSTER")))
	out, err := cp.Kubectl(t.Context(), "get", "namespace", "default", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.TrimSpace(string(out))).To(Equal("namespace/default"))
	g.Expect(cp.Stop()).To(Succeed())
	g.Expect(shared.client.Get(context.WithoutCancel(t.Context()), types.NamespacedName{Name: "default"},
		&corev1.Namespace{})).
		To(Succeed(), "the cluster is still there")
}

// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/env"
)

// startCurrent starts current.sh with an operator. The output file and the temporary files share a folder.
func startCurrent(t *testing.T, kubectl, kubeconfig, manager string) (cmd *exec.Cmd, output func() string) {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	cmd = exec.CommandContext(t.Context(), "./current.sh", manager, "current")
	cmd.Env = append(os.Environ(), "KUBECTL="+kubectl, "KUBECONFIG="+kubeconfig, "TMPDIR="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := filepath.Glob(filepath.Join(dir, "tmp.*")); err != nil || len(left) > 0 {
			t.Errorf("it leaves %q behind (%v)", left, err)
		}
	})
	return cmd, func() string {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}

const labels = "{app.kubernetes.io/name: leasehold, control-plane: controller-manager}"

// webhook is one of a ValidatingWebhookConfiguration, which no request reaches.
func webhook(name, path string) string {
	return "- name: " + name + "\n  admissionReviewVersions: [v1]\n  sideEffects: None\n" +
		"  clientConfig: {service: {name: none, namespace: default, path: " + path + "}}\n"
}

// No other name is taken for the current cluster, and an operator that fails is not reported as stopped.
func TestCurrentFails(t *testing.T) {
	fakes := map[string]string{"manager": "exit 3", "kubectl": `case $* in
*" api-resources "*) printf '%s\n' a b c ;;
esac`}
	for arguments, want := range map[string]struct{ prints, code string }{
		"current":       {"run: the operator exited on its own", "3"},
		"staging":       {`CLUSTER must be empty or "current"`, "2"},
		"current -once": {"CLUSTER=current accepts no ARGS", "2"},
	} {
		got := run(t, `./current.sh "$(command -v manager)" `+arguments+` || echo "code $?"`, fakes, "KUBECTL=kubectl")
		if !strings.HasSuffix(got.stdout, "code "+want.code) || !strings.Contains(got.stderr, want.prints) {
			t.Errorf("%s: got %+v, want code %s with %q", arguments, got, want.code, want.prints)
		}
	}
}

// current.sh on an existing cluster applies only the definitions, and refuses where Leasehold is installed.
func TestSlowCurrentCluster(t *testing.T) {
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		t.Skip("needs a cluster of its own")
	}
	g := NewWithT(t)
	plane, err := env.Start(t.Context(), env.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubectl, err := plane.KubectlPath()
	g.Expect(err).NotTo(HaveOccurred())
	k := func(args ...string) (string, error) {
		out, err := plane.Kubectl(t.Context(), args...)
		return string(out), err
	}
	apply := func(text string, args ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "object.yaml")
		g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		g.Expect(k(append([]string{"apply", "--server-side", "-f", file}, args...)...)).To(ContainSubstring("applied"))
	}
	refuses := func(kubeconfig, reason string) {
		t.Helper()
		cmd, output := startCurrent(t, kubectl, kubeconfig, "false")
		g.Expect(cmd.Wait()).NotTo(Succeed())
		g.Expect(output()).To(ContainSubstring(reason))
	}
	refuses(filepath.Join(t.TempDir(), "none"), "current-context must exist")

	// What an overlay with a prefix and a namespace leaves: the paths of webhooks, and labels.
	for _, installation := range []struct{ name, object string }{
		{"validatingwebhookconfiguration ops-admission", "apiVersion: admissionregistration.k8s.io/v1\n" +
			"kind: ValidatingWebhookConfiguration\nmetadata: {name: ops-admission}\nwebhooks:\n" + webhook("other.example.com", "/validate") +
			webhook("vtenant.leasehold.dev", "/validate-leasehold-dev-v1beta1-tenant")},
		{"deployment default/ops-manager", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ops-manager, namespace: default, " +
			"labels: " + labels + "}\nspec:\n  selector: {matchLabels: " + labels + "}\n  template:\n    metadata: {labels: " + labels +
			"}\n    spec: {containers: [{name: manager, image: leasehold:dev}]}\n"},
	} {
		apply(installation.object)
		refuses(plane.Kubeconfig(), "already installed in the cluster ("+installation.name+"), and two operators would "+
			"compete; nothing was changed")
		g.Expect(k("get", "customresourcedefinitions", "-o", "name")).To(BeEmpty())
		g.Expect(k("delete", "validatingwebhookconfigurations,deployments", "--all", "--namespace=default")).NotTo(BeEmpty())
	}

	// Another manager applied a newer definition. The other two would be applied before it.
	shipped, err := os.ReadFile("../config/crd/bases/leasehold.dev_tenants.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	const before = "\n            properties:\n              admins:\n"
	newer := strings.Replace(string(shipped), before, strings.Replace(before, "admins:", "future: {type: string}\n              admins:", 1), 1)
	apply(newer, "--field-manager=helm")
	refuses(plane.Kubeconfig(), `conflict with "helm"`)
	g.Expect(k("get", "customresourcedefinitions", "-o", "name")).To(Equal("customresourcedefinition.apiextensions.k8s.io/tenants.leasehold.dev\n"))
	g.Expect(k("get", "customresourcedefinitions", "-o", "yaml")).To(ContainSubstring("future:"))
	g.Expect(k("delete", "customresourcedefinitions", "--all")).NotTo(BeEmpty())

	cmd, output := startCurrent(t, kubectl, plane.Kubeconfig(), filepath.Join("..", "bin", "manager"))
	g.Eventually(output).WithTimeout(time.Minute).Should(ContainSubstring("which are missing here"))
	apply("apiVersion: leasehold.dev/v1beta1\nkind: Tenant\nmetadata: {name: here}\n" +
		"spec: {namespaces: [dev], admins: [{kind: User, name: jane}]}\n")
	_, err = k("wait", "tenant/here", "--for=condition=Ready", "--timeout=1m")
	g.Expect(err).NotTo(HaveOccurred(), "it prints\n%s", output())
	g.Expect(k("get", "namespaces", "-o", "name")).To(Equal("namespace/default\nnamespace/here-dev\n" +
		"namespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n"))
	g.Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Expect(cmd.Wait()).To(Succeed(), "it prints\n%s", output())
	for _, text := range []string{"context ", " at " + plane.Config().Host, "tenants.leasehold.dev serverside-applied",
		"admission webhooks", "to apply the samples, run", "the CRDs and all objects remain in the cluster"} {
		g.Expect(output()).To(ContainSubstring(text))
	}
}

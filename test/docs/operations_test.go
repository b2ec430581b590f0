// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inTour are lines of docs/operations.md that run at the end of the tour, in this order.
var inTour = []string{
	"kubectl apply -k config/grafana     # a ConfigMap for Grafana's sidecar; elsewhere import config/grafana/leasehold.json (Grafana 10 or later)",
	`kubectl patch validatingadmissionpolicybinding leasehold-fence.leasehold.dev --type=merge -p '{"spec":{"validationActions":["Audit"]}}'`,
	"kubectl delete tenants --all                           # deletes or retains their namespaces, by the policy of each",
	"kubectl delete storagebuckets --all --all-namespaces   # deletes or retains managed buckets",
	"make undeploy",
}

// elsewhere has the first line of each block of docs/operations.md that another test runs, or the
// reason why no test does.
var elsewhere = map[string]struct{ test, mention, reason string }{
	"kubectl apply --server-side -f install.yaml": {reason: "needs a release; make release checks its manifests"},
	"export IMG=":                        {reason: "needs a registry; hack/docker-test.sh builds both images by make docker-build"},
	"resource.customizations":            {test: "hack/gitops/argocd_test.go", mention: `"### Argo CD"`},
	"namespace: platform-ops":            {test: "test/manifests/fence_test.go", mention: `"### In another namespace"`},
	"apiVersion: flowcontrol":            {test: "test/manifests/fence_test.go", mention: `own leader elections:"`},
	"helm install leasehold":             {test: "test/e2e/helm_test.go", mention: `"upgrade"`},
	"make deploy IMG=":                   {test: "test/e2e/upgrade_test.go", mention: "TestUpgrade"},
	"kubectl get namespaces":             {test: "test/integration/continuity/restore_test.go", mention: `"Back up with:"`},
	"bare='del(":                         {test: "test/integration/continuity/restore_test.go", mention: `"and restore the namespaces:"`},
	"kubectl delete deployments":         {test: "test/integration/continuity/restore_test.go", mention: `"then restore the custom resources:"`},
	"kubectl get tenants":                {test: "test/integration/continuity/restore_test.go", mention: `"over the namespaces:"`},
	"while read -r namespace name":       {test: "test/integration/continuity/restore_test.go", mention: `"List what each tag is and has to become:"`},
	"kubectl annotate storagebuckets":    {test: "test/integration/continuity/restore_test.go", mention: `"Then request a probe, and wait until`},
	"kubectl apply -k config/prometheus": {reason: "needs the Prometheus operator's kinds; the second line is in the tour"},
}

// Each command of docs/operations.md runs in a test, or has a reason why none does.
func TestOperationsRun(t *testing.T) {
	used := map[string]bool{}
	text := strings.Join(blocks(t, "docs/operations.md"), "\n")
	for _, line := range inTour {
		if !strings.Contains(text+"\n", line+"\n") {
			t.Errorf("docs/operations.md has no line %q", line)
		}
	}
	for _, block := range blocks(t, "docs/operations.md") {
		first, _, _ := strings.Cut(block, "\n")
		known := false
		for _, line := range inTour {
			known = known || line == first
		}
		for prefix, e := range elsewhere {
			if !strings.HasPrefix(block, prefix) {
				continue
			}
			known, used[prefix] = true, true
			if e.test == "" {
				continue
			}
			source, err := os.ReadFile(filepath.Join(root, e.test))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(source), e.mention) {
				t.Errorf("%s does not mention %s, which runs %q", e.test, e.mention, first)
			}
		}
		if !known {
			t.Errorf("no test runs the block that begins with %q", first)
		}
	}
	for prefix := range elsewhere {
		if !used[prefix] {
			t.Errorf("docs/operations.md has no block that begins with %q", prefix)
		}
	}
}

// operate runs the commands for operators. The last ones uninstall the operator while its processes run.
func operate(t *testing.T, r *liveRun) {
	t.Helper()
	for _, line := range inTour {
		if line == "make undeploy" {
			actions, err := r.bash(t, "kubectl get validatingadmissionpolicybinding leasehold-fence.leasehold.dev -o jsonpath='{.spec.validationActions}'")
			if err != nil || actions != `["Audit"]` {
				t.Errorf("the fence is %s (%v), want Audit", actions, err)
			}
		}
		if out, err := r.bash(t, line); err != nil {
			t.Errorf("$ %s: %v\n%s", line, err, out)
		}
	}
	if out, err := r.bash(t, "kubectl get customresourcedefinitions -o name"); err != nil || out != "" {
		t.Errorf("make undeploy leaves %s (%v)", out, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/internal/chart"
)

const root = "../.."

// release returns the objects that Helm renders from the chart in a namespace.
func release(t *testing.T, namespace string, args ...string) []byte {
	t.Helper()
	out, err := openChart(t).Template(t.Context(), namespace, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func openChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := chart.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The chart renders the same objects as kustomize renders from config/, for each choice of parts,
// with three differences: Helm creates the namespace, CRDs outlive the release, and the Lease is
// removed with it.
func TestChartEqualsOverlays(t *testing.T) {
	for name, tc := range map[string]struct {
		values   []string
		overlays []string
	}{
		"defaults":       {overlays: []string{"default"}},
		"cert-manager":   {values: []string{"certificates.issuer=cert-manager"}, overlays: []string{"certmanager"}},
		"without fence":  {values: []string{"fence=off"}, overlays: []string{"fencing/off"}},
		"unquoted off":   {values: []string{"fence=false"}, overlays: []string{"fencing/off"}},
		"network policy": {values: []string{"networkPolicy.enabled=true"}, overlays: []string{"default", "network-policy"}},
		"monitoring": {
			values:   []string{"serviceMonitor.enabled=true", "alerts.enabled=true", "dashboard.enabled=true"},
			overlays: []string{"default", "prometheus", "grafana"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for _, overlay := range tc.overlays {
				maps.Copy(want, split(t, renderedOverlay(t, overlay)))
			}
			var args []string
			for _, value := range tc.values {
				args = append(args, "--set", value)
			}
			got := split(t, release(t, operatorNamespace, args...))
			if diff := gocmp.Diff(want, withoutDifferences(t, got, want)); diff != "" {
				t.Errorf("the chart is not %v (-kustomize +chart):\n%s", tc.overlays, diff)
			}
		})
	}
}

// withoutDifferences removes the objects that only the chart has, and adds the namespace.
func withoutDifferences(t *testing.T, got, overlay map[string]string) map[string]string {
	t.Helper()
	const keep = "    helm.sh/resource-policy: keep\n"
	same := map[string]string{"Namespace " + operatorNamespace: overlay["Namespace "+operatorNamespace]}
	definitions := 0
	for name, text := range got {
		if strings.HasPrefix(name, "CustomResourceDefinition ") && strings.Contains(text, keep) {
			definitions++
			text = strings.Replace(text, keep, "", 1)
		}
		same[name] = text
	}
	lease := "Lease " + operatorNamespace + " manager.leasehold.dev"
	if text := same[lease]; text == "" || strings.Contains(text, "helm.sh/") || definitions != 3 {
		t.Errorf("the chart has %d definitions that are kept, want 3, and the Lease, which is not: %q", definitions, text)
	}
	delete(same, lease)
	return same
}

// A release may have any name and any namespace, even one that YAML would parse as a number.
func TestChartFollowsTheNamespace(t *testing.T) {
	for _, parts := range []string{"certificates.issuer=own",
		"certificates.issuer=cert-manager,networkPolicy.enabled=true,dashboard.enabled=true," +
			"serviceMonitor.enabled=true,alerts.enabled=true"} {
		at := strings.ReplaceAll(string(release(t, operatorNamespace, "--set", parts)), operatorNamespace, "123")
		want := split(t, []byte(strings.ReplaceAll(at, `namespace: 123`, `namespace: "123"`)))
		if diff := gocmp.Diff(want, split(t, release(t, "123", "--set", parts))); diff != "" {
			t.Errorf("%s: in another namespace, the chart differs in more than that (-want +got):\n%s", parts, diff)
		}
	}
}

// A tag or a digest alone is enough, and without either the tag is the chart's appVersion.
func TestChartNamesImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("9", 64)
	for set, want := range map[string]string{"tag=": ":dev", "tag=v9": ":v9", "digest=" + digest: "@" + digest} {
		args, err := renderDeployment(t, "--set", "images.viewer."+set)
		if err != nil || !slices.Contains(args, "--default-viewer-image=leasehold-viewer"+want) {
			t.Errorf("images.viewer.%s: %q (%v), want %s", set, args, err, want)
		}
	}
}

// Older releases of Helm take v1.31.4-eks-1 for a pre-release, which no range without one contains.
func TestChartAllowsTheVersionsOfClouds(t *testing.T) {
	capture(t, filepath.Join("config", "chart", "Chart.yaml"), `kubeVersion: (">=1\.\d+\.0-0")`)
}

func TestChartPassesLint(t *testing.T) {
	c := openChart(t)
	for _, file := range valueFiles(t, c) {
		if out, err := c.Lint(t.Context(), "--values", file); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
}

// The notes warn of a fence that denies nothing. `helm template` does not render them.
func TestNotesAreTrueOfTheValues(t *testing.T) {
	openChart(t) // which reads what Helm does
	for set, tc := range map[string]struct{ has, hasNot string }{
		"fence=enforce": {"with 2 replicas.\n", "The fence is"},
		"fence=audit":   {"The fence is in audit mode: the API server accepts writes", "not installed"},
		"fence=off":     {"The fence is not installed: the API server accepts writes", "audit"},
		"replicas=1":    {"with 1 replica.\n", "The fence is"},
		// Without a cluster, the namespace has no labels.
		"replicas=3":       {"The namespace enforces no Pod Security Standard", "The fence is"},
		"hostNetwork=true": {"with 2 replicas.\n", "enforces no Pod Security"},
	} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "tools", "helm"), "install", "leasehold",
			filepath.Join(root, "config", "chart"), "--dry-run=client", "--set", set).Output()
		_, notes, found := strings.Cut(string(out), "\nNOTES:\n")
		if err != nil || !found || !strings.Contains(notes, tc.has) || strings.Contains(notes, tc.hasNot) {
			t.Errorf("%s: %v, want %q and not %q in the notes:\n%s", set, err, tc.has, tc.hasNot, notes)
		}
	}
}

func valueFiles(t *testing.T, c *chart.Chart) []string {
	t.Helper()
	files, err := c.ValueFiles()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// An unknown value or a value of a wrong type stops Helm with a message that names the value and
// the allowed ones.
func TestChartRefusesBadValues(t *testing.T) {
	c := openChart(t)
	for argument, want := range map[string]string{
		"--set=replica=3":                           "at '': additional properties 'replica' not allowed",
		"--set=images.operator.tag=x":               "at '/images': additional properties 'operator' not allowed",
		"--set=images.viewer.pullPolicy=Always":     "at '/images/viewer': additional properties 'pullPolicy' not allowed",
		"--set=resources.limit.memory=1Gi":          "at '/resources': additional properties 'limit' not allowed",
		"--set=flags.max-concurent-probes=3":        "at '/flags': additional properties 'max-concurent-probes' not allowed",
		"--set=webhookTimeoutSeconds=31":            "at '/webhookTimeoutSeconds': maximum: got 31, want 30",
		"--set=replicas=0":                          "at '/replicas': minimum: got 0, want 1",
		"--set-string=replicas=2":                   "at '/replicas': got string, want integer",
		"--set=serviceMonitor=true":                 "at '/serviceMonitor': got boolean, want object",
		"--set=fence=maybe":                         "at '/fence': value must be one of 'enforce', 'audit', 'off', false",
		"--set=certificates.issuer=letsencrypt":     "at '/certificates/issuer': value must be one of 'own', 'cert-manager'",
		"--set=images.manager.pullPolicy=Sometimes": "at '/images/manager/pullPolicy': value must be one of",
		"--set=images.manager.digest=sha256:12ab":   "at '/images/manager/digest': 'sha256:12ab' does not match pattern",
		"--set=tenantAdminClusterRole=":             "at '/tenantAdminClusterRole': minLength: got 0, want 1",
		// What the schema cannot express; see TestSlowChartAndManagerRefuseTheSame.
		"--set=flags.leader-elect-lease-duration=601s":   "leader-elect-lease-duration 601s must not be longer than 10m",
		"--set=flags.leader-elect-lease-duration=11s":    "leader-elect-lease-duration 11s must not be shorter than",
		"--set=flags.leader-elect-renew-deadline=2400ms": "leader-elect-renew-deadline 2400ms must be longer than 1.2 times",
	} {
		out, err := c.Template(t.Context(), operatorNamespace, argument)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: helm returns %v, want %q", argument, err, want)
		}
		if len(out) > 0 {
			t.Errorf("%s: helm renders %d bytes all the same", argument, len(out))
		}
	}
}

// A key without a value is null in YAML, and Helm deletes a null value. Helm fails if the templates
// need it. Otherwise the default applies. Only resources and the node selector may be null.
func TestSlowChartRefusesMissingValues(t *testing.T) {
	defaults := map[string]any{}
	if err := yaml.Unmarshal([]byte(read(t, "config", "chart", "values.yaml")), &defaults); err != nil {
		t.Fatal(err)
	}
	delete(defaults, "resources")
	delete(defaults["scheduling"].(map[string]any), "nodeSelector")
	want := string(release(t, operatorNamespace))
	for _, path := range paths(defaults) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			out, err := openChart(t).Template(t.Context(), operatorNamespace, "--set", path+"=null")
			missing := fmt.Sprintf("missing property '%s'", path[strings.LastIndex(path, ".")+1:])
			if err != nil && !strings.Contains(err.Error(), missing) {
				t.Errorf("helm returns %v, want %s", err, missing)
			}
			if err == nil && string(out) != want {
				t.Errorf("the chart differs (-default +null):\n%s", gocmp.Diff(want, string(out)))
			}
		})
	}
}

// paths returns the names of all values in the notation of --set.
func paths(values map[string]any) []string {
	var all []string
	for name, value := range values {
		all = append(all, name)
		parts, _ := value.(map[string]any)
		for _, part := range paths(parts) {
			all = append(all, name+"."+part)
		}
	}
	return all
}

// Each flag of the manager is a value, unless other objects of the chart depend on it.
func TestChartHasEachFlag(t *testing.T) {
	fixed := []string{
		"default-viewer-image", "tenant-admin-cluster-role", // separate values
		// the webhook configurations, the Service and the Secret
		"enable-webhooks", "webhook-bind-address", "webhook-cert-path", "webhook-name-prefix",
		"leader-elect", "leader-election-id", // the fence
		// the ServiceMonitor
		"metrics-bind-address", "metrics-cert-path", "metrics-secure",
		// the Pod
		"health-probe-bind-address", "graceful-shutdown-timeout", "kubeconfig", "version",
	}
	types := map[string][]string{"": {"boolean"}, "int": {"#/$defs/count"}, "float": {"number"},
		"duration": {"#/$defs/duration", "#/$defs/positiveDuration", "#/$defs/wholeSeconds"}}
	settable := flagsOfSchema(t)
	for _, match := range regexp.MustCompile(`(?m)^  -(\S+)(?: (\w+))?$`).
		FindAllStringSubmatch(read(t, "docs", "flags.txt"), -1) {
		name := match[1]
		flag, found := settable[name]
		if found == slices.Contains(fixed, name) {
			t.Errorf("--%s is in the schema: %t; it is fixed: %t", name, found, !found)
		}
		got := flag.Ref + flag.Type
		if want := types[match[2]]; found && want != nil && !slices.Contains(want, got) {
			t.Errorf("--%s is %q in the schema, want one of %q", name, got, want)
		}
		delete(settable, name)
	}
	for name := range settable {
		t.Errorf("the manager has no flag --%s", name)
	}
}

type flagSchema struct {
	Ref  string `json:"$ref"`
	Type string `json:"type"`
}

func flagsOfSchema(t *testing.T) map[string]flagSchema {
	t.Helper()
	var schema struct {
		Properties struct {
			Flags struct {
				Properties map[string]flagSchema `json:"properties"`
			} `json:"flags"`
		} `json:"properties"`
	}
	if err := json.Unmarshal([]byte(read(t, "config", "chart", "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Properties.Flags.Properties
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

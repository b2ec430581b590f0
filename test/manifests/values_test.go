// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Values that the manager rejects, by their path. If it rejects a combination, the other flags are
// beside the value.
var refusedByBoth = map[string][]string{
	"leader-elect-lease-duration": {`"0s"`, `"500ms"`, `"1500ms"`, `"11s"`, `"-15s"`, `"15"`, `"s"`, `"99999999h"`, `""`,
		`"601s"`, `"10m1s"`},
	"leader-elect-renew-deadline": {`"0s"`, `"2400ms"`, `"2s"`, `"13001ms"`, `"1h"`, `"10"`},
	"leader-elect-retry-period":   {`"0s"`, `"0h0m0s"`, `"5001ms"`, `"9s"`, `"-2s"`},
	"sync-period":                 {`"0s"`, `"0"`, `"5"`, `"soon"`, `"-1m"`, `"5 m"`, `"m5"`, `"10d"`},
	"probe-tick-interval":         {`"0ms"`, `""`},
	"endpoint-deny-cidr": {`["10.96.0.0"]`, `["10.96.0.0/33"]`, `["10.96.0.256/12"]`, `["010.96.0.0/12"]`, `["10.96.0/12"]`,
		`["10.96.0.0/012"]`, `["service"]`, `[""]`, `["10.0.0.0/8", "10.96.0.0"]`, `["fd00::/129"]`, `["fd00::1::/64"]`,
		`["1:2:3:4:5:6:7:8:9/64"]`, `["1:2:3:4:5:6:7:8::/64"]`, `["1:2:3/64"]`, `["12345::/16"]`, `[":1/64"]`, `["fd00:/64"]`,
		`["::ffff:a00:0/104"]`, `["0:0:0:0:0:ffff:a00:0/104"]`, `["0:0:0:0:0:FFFF::/96"]`, `["0::ffff:0:0/96"]`,
		`["fe80::%eth0/64"]`, `["fd00::/"]`, `["g::/16"]`},
	"endpoint-allow-cidr":        {`["127.0.0.1"]`, `["::1"]`, `["10.0.0.0/-1"]`, `["example.com"]`},
	"kube-api-qps":               {`0`, `-0.5`},
	"max-concurrent-probes":      {`0`},
	"max-concurrent-reconciles":  {`0`, `-4`},
	"tenant-pod-security-level":  {`"Baseline"`, `"none"`},
	"tenant-reserved-namespaces": {`"Kyverno"`, `"a, b"`},
	"zap-log-level":              {`"chatty"`, `0`, `-1`, `""`, `"warn"`},
	"zap-encoder":                {`"xml"`, `""`},
	"zap-stacktrace-level":       {`"debug"`},
	"zap-time-encoding":          {`"unix"`},
	"zap-devel":                  {`"perhaps"`},
}

// Values that the manager accepts, as flags of one release each.
var acceptedByBoth = []string{
	`{"leader-elect-lease-duration": "12s"}`,
	`{"leader-elect-renew-deadline": "13s"}`,
	`{"leader-elect-renew-deadline": "2401ms"}`,
	`{"leader-elect-retry-period": "5s"}`,
	`{"leader-elect-lease-duration": "1s", "leader-elect-renew-deadline": "500ms", "leader-elect-retry-period": "100ms"}`,
	`{"leader-elect-lease-duration": "0h9m60s", "leader-elect-renew-deadline": "8m1s1ms", "leader-elect-retry-period": "1m1s"}`,
	`{"sync-period": "99999h", "probe-tick-interval": "1m"}`,
	`{"sync-period": "1ms"}`,
	`{"endpoint-deny-cidr": ["10.96.0.0/12", "0.0.0.0/0", "255.255.255.255/32", "10.1.2.3/8"]}`,
	`{"endpoint-deny-cidr": ["fd00::/108", "::/0", "::1/128", "1:2:3:4:5:6:7:8/64", "1::/16", "1::8/64", "1:2:3:4:5:6:7::/112"]}`,
	`{"endpoint-deny-cidr": ["64:ff9b::/96", "FD00:0:0:1::/64", "::ffff/128", "::ffff:1/128", "0:ffff::/32", "1::ffff:2:3/128"]}`,
	`{"endpoint-allow-cidr": [], "kube-api-qps": 0.1, "max-concurrent-probes": 1}`,
	`{"tenant-pod-security-level": "", "tenant-reserved-namespaces": "cert-manager,cattle-*", "zap-log-level": 127, "zap-devel": false}`,
	`{"zap-log-level": "panic", "zap-stacktrace-level": "error", "zap-encoder": "console", "zap-time-encoding": "rfc3339nano"}`,
}

// The chart accepts the same values as the manager: Helm fails for each value that the manager rejects.
func TestSlowChartAndManagerRefuseTheSame(t *testing.T) {
	for flag, values := range refusedByBoth {
		for _, value := range values {
			t.Run(flag+"="+value, func(t *testing.T) {
				t.Parallel()
				if err := runManager(t, flagArguments(t, flag, value)); err == nil {
					t.Error("the manager accepts it")
				}
				if _, err := renderFlags(t, fmt.Sprintf("{%q: %s}", flag, value)); err == nil {
					t.Error("the chart renders it")
				}
			})
		}
	}
	for _, flags := range acceptedByBoth {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			args, err := renderFlags(t, flags)
			if err != nil {
				t.Fatalf("the chart refuses it: %v", err)
			}
			if err := runManager(t, args); err != nil {
				t.Errorf("the manager refuses what the chart renders: %v", err)
			}
		})
	}
	settable := slices.Sorted(maps.Keys(flagsOfSchema(t)))
	for _, flag := range settable {
		if refusedByBoth[flag] == nil {
			t.Errorf("no value of %s is refused", flag)
		}
	}
}

// Image names as they are in the values of a release.
func TestSlowChartAndManagerRefuseTheSameImages(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, accepted := range map[string]bool{
		"a": true, "example.com/a/b": true, "example.com:5000/a": true, "EXAMPLE.com/a": true, "a__b/c-d.e": true,
		"a//b": false, "a..b": false, "a/b:5000/c": false, "example.com:port/a": false, "a/B": false, "a/": false, "a_-b": false,
		strings.Repeat("0123456789abcdef", 4): false,
	} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			if err := runManager(t, []string{"--default-viewer-image=" + image + ":v1"}); (err == nil) != accepted &&
				len(image) != 64 { // the image has a tag, not a digest
				t.Errorf("the manager returns %v, want it accepted: %t", err, accepted)
			}
			args, err := renderDeployment(t, "--set", "images.viewer.repository="+image, "--set", "images.viewer.tag=v1",
				"--set", "images.viewer.digest="+digest[1:])
			if (err == nil) != accepted {
				t.Fatalf("the chart returns %v, want it accepted: %t", err, accepted)
			}
			if accepted && !slices.Contains(args, "--default-viewer-image="+image+":v1"+digest) {
				t.Errorf("the chart renders %q", args)
			}
		})
	}
}

// A single replica has no standby, and no budget, which would block a drain. A webhook is slow at half of its timeout.
func TestAlertsFollowValues(t *testing.T) {
	on := []string{"--set=alerts.enabled=true", "--set=serviceMonitor.enabled=true"}
	for set, standby := range map[string]bool{"replicas=2": true, "replicas=1": false} {
		t.Run(set, func(t *testing.T) {
			text := string(release(t, operatorNamespace, append(on, "--set", set)...))
			for _, part := range []string{"alert: LeaseholdNoStandby", "kind: PodDisruptionBudget"} {
				if got := strings.Contains(text, part); got != standby {
					t.Errorf("%s is there: %t, want %t", part, got, standby)
				}
			}
		})
	}
	slow := string(release(t, operatorNamespace, append(on, "--set=webhookTimeoutSeconds=9")...))
	for _, want := range []string{") > 4.5\n", "gives up after 9 s", "takes more than 4.5 s"} {
		if !strings.Contains(slow, want) {
			t.Errorf("with a timeout of 9 s, no alert has %q", want)
		}
	}
	configurations := string(release(t, operatorNamespace, "--set=webhookTimeoutSeconds=9"))
	if n := strings.Count(configurations, "  timeoutSeconds: 9\n"); n != len(webhooks(t, render(t, "default"))) {
		t.Errorf("%d webhooks have the timeout of 9 s, want all", n)
	}
	_, err := openChart(t).Template(t.Context(), operatorNamespace, "--set=alerts.enabled=true")
	if err == nil || !strings.Contains(err.Error(), "LeaseholdNoLeader fires for ever") {
		t.Errorf("alerts without metrics: helm returns %v", err)
	}
}

// chartValue is what a value of the chart is for: fields of rendered objects, by default and with another value. The
// defaults are stated here by hand.
type chartValue struct {
	value          string // JSON
	observe        func(*testing.T, []map[string]any) string
	byDefault, set string
}

const ofPod, ofContainer = ".spec.template.spec", ".spec.template.spec.containers[0]"

// chartValues has each value of the chart.
var chartValues = map[string]chartValue{
	"images.pullSecrets":        {`["keys"]`, fieldsOf("Deployment", ofPod+".imagePullSecrets[*].name"), "", "keys"},
	"images.manager.repository": {`"m.example.com/m"`, imageOf(ofManager, 1), "leasehold", "m.example.com/m"},
	"images.manager.tag":        {`"v8"`, imageOf(ofManager, 2), "dev", "v8"},
	"images.manager.digest": {`"sha256:` + strings.Repeat("8", 64) + `"`, imageOf(ofManager, 3), "",
		"sha256:" + strings.Repeat("8", 64)},
	"images.manager.pullPolicy": {`"Always"`, fieldsOf("Deployment", ofContainer+".imagePullPolicy"), "", "Always"},
	"images.viewer.repository":  {`"v.example.com/v"`, imageOf(argument("default-viewer-image"), 1), "leasehold-viewer", "v.example.com/v"},
	"images.viewer.tag":         {`"v9"`, imageOf(argument("default-viewer-image"), 2), "dev", "v9"},
	"images.viewer.digest": {`"sha256:` + strings.Repeat("9", 64) + `"`, imageOf(argument("default-viewer-image"), 3), "",
		"sha256:" + strings.Repeat("9", 64)},
	"replicas":                  {"3", fieldsOf("Deployment", ".spec.replicas"), "2", "3"},
	"resources.requests.cpu":    {`"30m"`, fieldsOf("Deployment", ofContainer+".resources.requests.cpu"), "20m", "30m"},
	"resources.requests.memory": {`"65Mi"`, fieldsOf("Deployment", ofContainer+".resources.requests.memory"), "64Mi", "65Mi"},
	"resources.limits.memory":   {`"513Mi"`, fieldsOf("Deployment", ofContainer+".resources.limits.memory"), "512Mi", "513Mi"},
	// Without a value here, the default is the manager's own.
	"flags.endpoint-allow-cidr":         {`["10.1.0.0/16","10.2.0.0/16"]`, argument("endpoint-allow-cidr"), "", "10.1.0.0/16 10.2.0.0/16"},
	"flags.endpoint-deny-cidr":          {`["10.3.0.0/16"]`, argument("endpoint-deny-cidr"), "", "10.3.0.0/16"},
	"flags.kube-api-qps":                {"2.5", argument("kube-api-qps"), "", "2.5"},
	"flags.leader-elect-lease-duration": {`"21s"`, argument("leader-elect-lease-duration"), "", "21s"},
	"flags.leader-elect-renew-deadline": {`"11s"`, argument("leader-elect-renew-deadline"), "", "11s"},
	"flags.leader-elect-retry-period":   {`"1s"`, argument("leader-elect-retry-period"), "", "1s"},
	"flags.max-concurrent-probes":       {"5", argument("max-concurrent-probes"), "", "5"},
	"flags.max-concurrent-reconciles":   {"6", argument("max-concurrent-reconciles"), "", "6"},
	"flags.probe-tick-interval":         {`"7s"`, argument("probe-tick-interval"), "", "7s"},
	"flags.sync-period":                 {`"8m"`, argument("sync-period"), "", "8m"},
	"flags.tenant-pod-security-level":   {`"restricted"`, argument("tenant-pod-security-level"), "", "restricted"},
	"flags.tenant-reserved-namespaces":  {`"a,b-*"`, argument("tenant-reserved-namespaces"), "", "a,b-*"},
	"flags.zap-devel":                   {"true", argument("zap-devel"), "", "true"},
	"flags.zap-encoder":                 {`"console"`, argument("zap-encoder"), "", "console"},
	"flags.zap-log-level":               {"2", argument("zap-log-level"), "", "2"},
	"flags.zap-stacktrace-level":        {`"error"`, argument("zap-stacktrace-level"), "", "error"},
	"flags.zap-time-encoding":           {`"nano"`, argument("zap-time-encoding"), "", "nano"},
	"tenantAdminClusterRole": {`"ops"`, several(argument("tenant-admin-cluster-role"),
		fieldsOf("ClusterRole", `.rules[?(@.verbs[0]=="bind")].resourceNames[*]`)), "|admin", "ops|ops"},
	"hostNetwork": {"true", fieldsOf("Deployment", ofPod+".hostNetwork", ofPod+".dnsPolicy"), "", "true ClusterFirstWithHostNet"},
	"ports.webhook": {"10250", several(argument("webhook-bind-address"), port("webhook"),
		fieldsOf("NetworkPolicy", ".spec.ingress[0].ports[*].port")), "|9443|", ":10250|10250|10250"},
	"ports.metrics": {"10251", several(argument("metrics-bind-address"), port("metrics"),
		fieldsOf("NetworkPolicy", ".spec.ingress[1].ports[*].port")), ":8443|8443|", ":10251|10251|10251"},
	"ports.probes": {"10252", several(argument("health-probe-bind-address"), port("probes")), ":8081|8081", ":10252|10252"},
	"scheduling.nodeSelector.kubernetes\\.io/os": {`"plan9"`, fieldsOf("Deployment", ofPod+`.nodeSelector.kubernetes\.io/os`),
		"linux", "plan9"},
	"scheduling.tolerations": {`[{"key":"a"}]`, fieldsOf("Deployment", ofPod+".tolerations[*].key"), "", "a"},
	"scheduling.affinity": {`{"nodeAffinity":{"a":"b"}}`, fieldsOf("Deployment", ofPod+".affinity.nodeAffinity.a",
		ofPod+".affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm.topologyKey"),
		"kubernetes.io/hostname", "b"},
	"scheduling.topologySpreadConstraints": {`[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}]`,
		fieldsOf("Deployment", ofPod+".topologySpreadConstraints[*].topologyKey"), "", "z"},
	"scheduling.priorityClassName": {`"high"`, fieldsOf("Deployment", ofPod+".priorityClassName"), "", "high"},
	"certificates.issuer": {`"cert-manager"`, several(argument("webhook-cert-path"), names("Certificate"),
		fieldsOf("ValidatingWebhookConfiguration", `.metadata.annotations.cert-manager\.io/inject-ca-from`)),
		"||", "/etc/leasehold/webhook-certs|leasehold-serving-cert|leasehold-system/leasehold-serving-cert"},
	"webhookTimeoutSeconds": {"9", several(fieldsOf("MutatingWebhookConfiguration", ".webhooks[*].timeoutSeconds"),
		fieldsOf("ValidatingWebhookConfiguration", ".webhooks[*].timeoutSeconds")), "5|5 5 5", "9|9 9 9"},
	"fence": {`"audit"`, fieldsOf("ValidatingAdmissionPolicyBinding", `.spec.validationActions[*]`), "Deny Deny", "Deny Audit"}, //nolint:dupword // of two bindings
	"crds.enabled": {"false", names("CustomResourceDefinition"),
		"markdownviews.leasehold.dev storagebuckets.leasehold.dev tenants.leasehold.dev", ""},
	"serviceMonitor.enabled": {"true", names("ServiceMonitor"), "", "leasehold-controller-manager-metrics-monitor"},
	"serviceMonitor.labels":  {`{"a":"monitor"}`, fieldsOf("ServiceMonitor", ".metadata.labels.a"), "", "monitor"},
	"alerts.enabled":         {"true", names("PrometheusRule"), "", "leasehold-alerts"},
	"alerts.labels":          {`{"a":"rule"}`, fieldsOf("PrometheusRule", ".metadata.labels.a"), "", "rule"},
	"dashboard.enabled":      {"true", names("ConfigMap"), "", "leasehold-dashboard"},
	"networkPolicy.enabled":  {"true", names("NetworkPolicy"), "", "leasehold-controller-manager"},
}

// fieldsOf observes fields of the objects of a kind.
func fieldsOf(kind string, paths ...string) func(*testing.T, []map[string]any) string {
	return func(t *testing.T, objects []map[string]any) string {
		t.Helper()
		var found []string
		for _, o := range objects {
			for _, path := range paths {
				expression := jsonpath.New("").AllowMissingKeys(true)
				if err := expression.Parse("{" + path + "}"); err != nil {
					t.Fatal(err)
				}
				var text bytes.Buffer
				if err := expression.Execute(&text, o); o["kind"] == kind && err == nil && text.Len() > 0 {
					found = append(found, text.String())
				}
			}
		}
		return strings.Join(found, " ")
	}
}

var names = func(kind string) func(*testing.T, []map[string]any) string { return fieldsOf(kind, ".metadata.name") }

func port(name string) func(*testing.T, []map[string]any) string {
	return fieldsOf("Deployment", ofContainer+`.ports[?(@.name=="`+name+`")].containerPort`)
}

var ofManager = fieldsOf("Deployment", ofContainer+".image")

// argument observes the values of a flag.
func argument(name string) func(*testing.T, []map[string]any) string {
	return func(t *testing.T, objects []map[string]any) string {
		t.Helper()
		var values []string
		for arg := range strings.SplitSeq(fieldsOf("Deployment", ofContainer+".args[*]")(t, objects), " ") {
			if value, found := strings.CutPrefix(arg, "--"+name+"="); found {
				values = append(values, value)
			}
		}
		return strings.Join(values, " ")
	}
}

// imageOf observes the repository, the tag or the digest of an image.
func imageOf(image func(*testing.T, []map[string]any) string, part int) func(*testing.T, []map[string]any) string {
	return func(t *testing.T, objects []map[string]any) string {
		t.Helper()
		return regexp.MustCompile(`^([^:@]*):?([^@]*)@?(.*)$`).FindStringSubmatch(image(t, objects))[part]
	}
}

func several(observe ...func(*testing.T, []map[string]any) string) func(*testing.T, []map[string]any) string {
	return func(t *testing.T, objects []map[string]any) string {
		t.Helper()
		all := make([]string, len(observe))
		for i, one := range observe {
			all[i] = one(t, objects)
		}
		return strings.Join(all, "|")
	}
}

// Each value of the chart reaches what it is for, and by default that is as stated here. A new value needs a line.
func TestChartValuesReachTheirObjects(t *testing.T) {
	defaults := map[string]any{}
	if err := yaml.Unmarshal([]byte(read(t, "config", "chart", "values.yaml")), &defaults); err != nil {
		t.Fatal(err)
	}
	var args []string
	for path, v := range chartValues {
		args = append(args, "--set-json", path+"="+v.value)
	}
	byDefault, set := rendered(t), rendered(t, args...)
	for path, v := range chartValues {
		if got := v.observe(t, byDefault); got != v.byDefault {
			t.Errorf("%s: by default %q, want %q", path, got, v.byDefault)
		}
		if got := v.observe(t, set); got != v.set {
			t.Errorf("%s=%s: %q, want %q", path, v.value, got, v.set)
		}
	}
	for flag := range flagsOfSchema(t) {
		defaults["flags"].(map[string]any)[flag] = nil
	}
	for _, path := range paths(defaults) {
		leads := func(known string) bool { return strings.HasPrefix(strings.ReplaceAll(known, `\.`, ".")+".", path+".") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(chartValues)), leads) {
			t.Errorf("%s is not observed here", path)
		}
	}
}

// rendered returns the objects of a release with these arguments.
func rendered(t *testing.T, args ...string) (objects []map[string]any) {
	t.Helper()
	for _, document := range separate(t, release(t, operatorNamespace, args...)) {
		var o map[string]any
		if err := yaml.Unmarshal(document, &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// renderFlags returns the arguments of the manager in a release with these flags.
func renderFlags(t *testing.T, flags string) ([]string, error) {
	t.Helper()
	return renderDeployment(t, "--set-json", "flags="+flags)
}

func renderDeployment(t *testing.T, args ...string) ([]string, error) {
	t.Helper()
	args = append(args, "--show-only", "templates/deployment.yaml")
	rendered, err := openChart(t).Template(t.Context(), operatorNamespace, args...)
	if err != nil {
		return nil, err
	}
	return manager(t, one[*appsv1.Deployment](t, decode(t, rendered), "leasehold-controller-manager")).Args, nil
}

// flagArguments returns a flag as the chart writes it.
func flagArguments(t *testing.T, flag, value string) []string {
	t.Helper()
	var decoded any
	if err := json.Unmarshal([]byte(value), &decoded); err != nil {
		t.Fatal(err)
	}
	items, ok := decoded.([]any)
	if !ok {
		items = []any{decoded}
	}
	var args []string
	for _, item := range items {
		if _, isText := item.(string); !isText {
			item = value
		}
		args = append(args, fmt.Sprintf("--%s=%v", flag, item))
	}
	return args
}

// runManager starts the manager with arguments and no cluster, and returns its error about the
// arguments, if any.
func runManager(t *testing.T, args []string) error {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join(root, "bin", "manager"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run `make build`", err)
	}
	cmd := exec.CommandContext(t.Context(), binary, append(args, "--kubeconfig="+filepath.Join(t.TempDir(), "none"))...)
	cmd.Env = []string{"POD_NAMESPACE=system"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("the manager ends with %v, want exit code 1 for its arguments or for the missing cluster: %s", err, out)
	}
	if refusal := regexp.MustCompile(`(?m)^manager: .*`).Find(out); refusal != nil {
		return errors.New(string(refusal))
	}
	return nil
}

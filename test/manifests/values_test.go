// SPDX-License-Identifier: Apache-2.0

package manifests

import (
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
	"endpoint-allow-cidr":       {`["127.0.0.1"]`, `["::1"]`, `["10.0.0.0/-1"]`, `["example.com"]`},
	"kube-api-qps":              {`0`, `-0.5`},
	"max-concurrent-probes":     {`0`},
	"max-concurrent-reconciles": {`0`, `-4`},
	"tenant-pod-security-level": {`"Baseline"`, `"none"`},
	"zap-log-level":             {`"chatty"`, `0`, `-1`, `""`, `"warn"`},
	"zap-encoder":               {`"xml"`, `""`},
	"zap-stacktrace-level":      {`"debug"`},
	"zap-time-encoding":         {`"unix"`},
	"zap-devel":                 {`"perhaps"`},
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
	`{"tenant-pod-security-level": "", "zap-log-level": 127, "zap-devel": false}`,
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

// Alerts depend on values: a single replica has no standby, and a webhook is slow at half of its timeout.
func TestAlertsFollowValues(t *testing.T) {
	on := []string{"--set=alerts.enabled=true", "--set=serviceMonitor.enabled=true",
		"--show-only=templates/prometheusrule.yaml"}
	for set, standby := range map[string]bool{"replicas=2": true, "replicas=1": false} {
		t.Run(set, func(t *testing.T) {
			text := string(release(t, operatorNamespace, append(on, "--set", set)...))
			if got := strings.Contains(text, "alert: LeaseholdNoStandby"); got != standby {
				t.Errorf("LeaseholdNoStandby is there: %t, want %t", got, standby)
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

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gotest.tools/v3/golden"
	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"leasehold.dev/runners/election"
	"leasehold.dev/runners/version"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

var inPod = environment("POD_NAME", "manager-0", "POD_NAMESPACE", "system", "POD_UID", "uid",
	"POD_CONTAINER", "manager")

// Each rule rejects a value one step outside its bounds with a message that names the flag, and
// accepts a value one step inside.
func TestOptionsRules(t *testing.T) {
	const beyond = "a second leader could start before the first has stopped"
	for name, tc := range map[string]struct {
		want            string
		outside, inside [][]string
	}{
		"Listener": {"for flag -webhook-bind-address",
			[][]string{{"--webhook-bind-address=:0"}, {"--webhook-bind-address=:65536"}, {"--webhook-bind-address=9443"},
				{"--webhook-bind-address=host"}},
			[][]string{{"--webhook-bind-address=:1"}, {"--webhook-bind-address=127.0.0.1:65535"},
				{"--webhook-bind-address=[::1]:9443"}}},
		"LeaseName": {"--leader-election-id must not be empty",
			[][]string{{"--leader-election-id="}}, [][]string{{"--leader-election-id=a"}}},
		"LeaseSeconds": {"must be a whole number of seconds, at least 1s",
			[][]string{
				{"--leader-elect-lease-duration=15001ms"}, {"--leader-elect-lease-duration=15999ms"},
				{"--leader-elect-lease-duration=0s"},
				{"--leader-elect-lease-duration=999ms", "--leader-elect-renew-deadline=500ms", "--leader-elect-retry-period=100ms"},
			},
			[][]string{
				{"--leader-elect-lease-duration=16s"},
				{"--leader-elect-lease-duration=1s", "--leader-elect-renew-deadline=500ms", "--leader-elect-retry-period=100ms"},
			}},
		"LeaseIsShort": {"must not be longer than 10m0s",
			[][]string{{"--leader-elect-lease-duration=601s"}}, [][]string{{"--leader-elect-lease-duration=10m"}}},
		"LeaseOutlastsLeader": {beyond,
			[][]string{{"--leader-elect-lease-duration=11s"}, {"--leader-elect-renew-deadline=13000000001ns"},
				{"--leader-elect-retry-period=5000000001ns"}},
			[][]string{{"--leader-elect-lease-duration=12s"}, {"--leader-elect-renew-deadline=13s"},
				{"--leader-elect-retry-period=5s"}}},
		"RenewTwice": {"longer than 1.2 times",
			[][]string{{"--leader-elect-renew-deadline=2400ms"}, {"--leader-elect-retry-period=9s"}},
			[][]string{{"--leader-elect-renew-deadline=2400000001ns"}}},
		"Retry": {"--leader-elect-retry-period 0s must be positive",
			[][]string{{"--leader-elect-retry-period=0s"}}, [][]string{{"--leader-elect-retry-period=1ns"}}},
		"Shutdown": {"--graceful-shutdown-timeout 0s must be positive",
			[][]string{{"--graceful-shutdown-timeout=0s"}}, [][]string{{"--graceful-shutdown-timeout=1ns"}}},
		"Sync": {"--sync-period 0s must be positive", [][]string{{"--sync-period=0"}},
			[][]string{{"--sync-period=1ns"}}},
		"NoViewer": {"--default-viewer-image must not be empty", [][]string{{"--default-viewer-image="}},
			[][]string{{"--default-viewer-image=a"}}},
		"ViewerImage": {`--default-viewer-image "Upper:case": the name of an image must look like`,
			[][]string{{"--default-viewer-image=Upper:case"}}, [][]string{{"--default-viewer-image=lower:Case"}}},
		"ProbeTick": {"--probe-tick-interval 0s must be positive", [][]string{{"--probe-tick-interval=0"}},
			[][]string{{"--probe-tick-interval=1ns"}}},
		"ProbeWorkers": {"--max-concurrent-probes 0 must be positive", [][]string{{"--max-concurrent-probes=0"}},
			[][]string{{"--max-concurrent-probes=1"}}},
		"Workers": {"--max-concurrent-reconciles 0 must be positive", [][]string{{"--max-concurrent-reconciles=0"}},
			[][]string{{"--max-concurrent-reconciles=1"}}},
		"QPS": {"must be positive", [][]string{{"--kube-api-qps=0"}, {"--kube-api-qps=NaN"}},
			[][]string{{"--kube-api-qps=0.1"}}},
		"AdminRole": {"--tenant-admin-cluster-role must not be empty", [][]string{{"--tenant-admin-cluster-role="}},
			[][]string{{"--tenant-admin-cluster-role=a"}}},
		"SecurityLevel": {"must be privileged, baseline, restricted or empty",
			[][]string{{"--tenant-pod-security-level=Baseline"}, {"--tenant-pod-security-level= "}},
			[][]string{{"--tenant-pod-security-level="}, {"--tenant-pod-security-level=privileged"},
				{"--tenant-pod-security-level=restricted"}}},
		"ReservedNames": {"must be names of namespaces, separated by commas without spaces",
			[][]string{{"--tenant-reserved-namespaces=a, b"}, {"--tenant-reserved-namespaces=A"}, {"--tenant-reserved-namespaces=a,,b"},
				{"--tenant-reserved-namespaces=[a"}},
			[][]string{{"--tenant-reserved-namespaces="}, {"--tenant-reserved-namespaces=a"}, {"--tenant-reserved-namespaces=a-*,b"}}},
		"AllowRange": {`"10.0.0.1" is not a CIDR such as 10.0.0.0/8`,
			[][]string{{"--endpoint-allow-cidr=10.0.0.1"}}, [][]string{{"--endpoint-allow-cidr=10.0.0.1/32"}}},
		"DenyRange": {`"example.com" is not a CIDR`,
			[][]string{{"--endpoint-deny-cidr=10.0.0.0/8,example.com"}},
			[][]string{{"--endpoint-deny-cidr=10.0.0.0/8, fd00::/8"}}},
		"DenyMapped": {"write the range as IPv4",
			[][]string{{"--endpoint-deny-cidr=::ffff:10.0.0.0/104"}}, [][]string{{"--endpoint-deny-cidr=64:ff9b::/96"}}},
		"Argument": {`unexpected argument "run"`, [][]string{{"run"}, {"--leader-elect", "run"}},
			[][]string{{"--leader-elect"}}},
		"Flag": {"no-such-flag", [][]string{{"--no-such-flag"}},
			[][]string{{"--zap-log-level=debug", "--zap-devel", "--kubeconfig=/kubeconfig"}}},
	} {
		t.Run(name, func(t *testing.T) {
			stderr(t)
			for _, args := range tc.outside {
				if _, err := parseOptions(args, inPod); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("parseOptions(%q) = %v, want an error with %q", args, err, tc.want)
				}
			}
			for _, args := range tc.inside {
				if _, err := parseOptions(args, inPod); err != nil {
					t.Errorf("parseOptions(%q) = %v, want nil", args, err)
				}
			}
		})
	}
}

func TestOptionsReportEveryProblem(t *testing.T) {
	_, err := parseOptions([]string{"--kube-api-qps=0", "--sync-period=0s"}, environment())
	for _, want := range []string{"set the environment variable POD_NAMESPACE", "--kube-api-qps", "--sync-period"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseOptions() = %v, want %q in it", err, want)
		}
	}
}

// docs/flags.txt is what --help prints: every flag with its default.
func TestFlagsGolden(t *testing.T) {
	printed := stderr(t)
	if _, err := parseOptions([]string{"--help"}, environment()); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parseOptions(--help) = %v, want flag.ErrHelp", err)
	}
	got, err := os.ReadFile(printed)
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, string(got), "../docs/flags.txt")
}

// The arguments that config/ renders are valid.
func TestShippedArgumentsAreValid(t *testing.T) {
	for overlay, lease := range map[string]time.Duration{"default": 15 * time.Second, "certmanager": 15 * time.Second,
		"e2e": 6 * time.Second} {
		o, err := parseOptions(shippedArguments(t, overlay), inPod)
		if err != nil || o.leaseDuration != lease || !o.leaderElect {
			t.Errorf("%s: %v, elects %t with a Lease of %v", overlay, err, o.leaderElect, o.leaseDuration)
		}
	}
}

// shippedArguments returns the arguments of the Deployment in the golden file of an overlay.
// test/manifests compares that file with config/.
func shippedArguments(t *testing.T, overlay string) []string {
	t.Helper()
	rendered, err := os.ReadFile("test/manifests/testdata/golden/" + overlay + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(rendered), "---\n") {
		var d appsv1.Deployment
		if err := yaml.Unmarshal([]byte(document), &d); err == nil && d.Kind == "Deployment" {
			return d.Spec.Template.Spec.Containers[0].Args
		}
	}
	t.Fatalf("the golden file of %s has no Deployment", overlay)
	return nil
}

// wire is what a flag is for: the option of a library, or what a reconcile does. It is observed by default and
// with another value. The defaults are stated here by hand.
type wire struct {
	value     string
	observe   func(*testing.T, *options) string
	byDefault string
	set       string
}

// Each flag reaches what it is for, and by default that has a value that is stated here. A new flag needs a line.
func TestFlagsSetTheirOptions(t *testing.T) {
	kubeconfig := kubeconfigFor(t, "http://203.0.113.1")
	t.Setenv("KUBECONFIG", kubeconfigFor(t, "http://127.0.0.1"))
	t.Cleanup(func() { _, _ = parseOptions(nil, inPod) }) // the variable of --kubeconfig is controller-runtime's
	wires := map[string]wire{
		"default-viewer-image": {"viewer:v1", viewerImage, "leasehold-viewer:dev", "viewer:v1"},
		"enable-webhooks":      {"false", readiness, "[caches webhook]", "[caches]"},
		"endpoint-allow-cidr": {"127.0.0.0/16,169.254.0.0/16", dialled,
			"10.1.2.3",
			"10.1.2.3 127.0.0.1 169.254.169.254"},
		"endpoint-deny-cidr": {"10.0.0.0/8", dialled, "10.1.2.3", ""},
		"graceful-shutdown-timeout": {"7s", ofManager(func(m ctrl.Options) any { return *m.GracefulShutdownTimeout }),
			"30s", "7s"},
		"health-probe-bind-address": {":1", ofManager(func(m ctrl.Options) any { return m.HealthProbeBindAddress }),
			":8081", ":1"},
		"kube-api-qps": {"3", rates, "50 a second, 100 at once", "3 a second, 6 at once"},
		"kubeconfig":   {kubeconfig, server, "http://127.0.0.1", "http://203.0.113.1"},
		"leader-elect": {"true", elects, "the manager false, the term false, the fence 0",
			"the manager true, the term true, the fence 1"},
		"leader-elect-lease-duration": {"16s", ofManager(func(m ctrl.Options) any { return *m.LeaseDuration }),
			"15s",
			"16s"},
		"leader-elect-renew-deadline": {"11s", times(func(m ctrl.Options) any { return *m.RenewDeadline },
			func(l election.Options) any { return l.RenewDeadline }), "10s 10s", "11s 11s"},
		"leader-elect-retry-period": {"3s", times(func(m ctrl.Options) any { return *m.RetryPeriod },
			func(l election.Options) any { return l.RetryPeriod }), "2s 2s", "3s 3s"},
		"leader-election-id": {"lease", leaseNames,
			"elects by manager.leasehold.dev, locks manager.leasehold.dev, fenced by system/manager.leasehold.dev",
			"elects by lease, locks lease, fenced by system/lease"},
		"max-concurrent-probes": {"5", workers,
			"tenant 4, storagebucket 32, markdownview 4",
			"tenant 4, storagebucket 5, markdownview 4"},
		"max-concurrent-reconciles": {"5", workers,
			"tenant 4, storagebucket 32, markdownview 4",
			"tenant 5, storagebucket 32, markdownview 5"},
		"metrics-bind-address": {":1", ofManager(func(m ctrl.Options) any { return m.Metrics.BindAddress }),
			":8443",
			":1"},
		"metrics-cert-path": {"/a", ofManager(func(m ctrl.Options) any { return m.Metrics.CertDir }), "", "/a"},
		"metrics-secure": {"false", ofManager(func(m ctrl.Options) any {
			return []bool{m.Metrics.SecureServing, m.Metrics.FilterProvider != nil}
		}), "[true true]", "[false false]"},
		"probe-tick-interval": {"20s", ticks, "tenant 0, storagebucket 59, markdownview 0",
			"tenant 0, storagebucket 2, markdownview 0"},
		"sync-period": {"10s", ticks, "tenant 0, storagebucket 59, markdownview 0",
			"tenant 5, storagebucket 59, markdownview 5"},
		"tenant-admin-cluster-role":  {"ops", adminRole, "admin leasehold:tenant-reader:a", "ops leasehold:tenant-reader:a"},
		"tenant-pod-security-level":  {"restricted", podSecurity, "baseline", "restricted"},
		"tenant-reserved-namespaces": {"a,ops-*", reserved, "cert-manager", "ops-*"},
		"version": {"true", func(_ *testing.T, o *options) string { return fmt.Sprint(o.showVersion) },
			"false",
			"true"},
		"webhook-bind-address": {"[::1]:1", ofWebhooks(func(w webhook.Options) any { return []any{w.Host, w.Port} }),
			"[ 9443]", "[::1 1]"},
		"webhook-cert-path": {"/a", ofWebhooks(func(w webhook.Options) any { return w.CertDir }), "", "/a"},
		"webhook-name-prefix": {"ops-", rotated, "system/leasehold-webhook-server-cert leasehold-webhook-service.system.svc " +
			"leasehold-validating-webhook-configuration leasehold-mutating-webhook-configuration",
			"system/ops-webhook-server-cert ops-webhook-service.system.svc " +
				"ops-validating-webhook-configuration ops-mutating-webhook-configuration"},
		"zap-devel": {"true", logged,
			"JSON true, text time true, verbosity 0, stack false",
			"JSON false, text time true, verbosity 1, stack false"},
		"zap-encoder": {"console", logged,
			"JSON true, text time true, verbosity 0, stack false",
			"JSON false, text time true, verbosity 0, stack false"},
		"zap-log-level": {"2", logged,
			"JSON true, text time true, verbosity 0, stack false",
			"JSON true, text time true, verbosity 2, stack false"},
		"zap-stacktrace-level": {"error", logged,
			"JSON true, text time true, verbosity 0, stack false",
			"JSON true, text time true, verbosity 0, stack true"},
		"zap-time-encoding": {"epoch", logged,
			"JSON true, text time true, verbosity 0, stack false",
			"JSON true, text time false, verbosity 0, stack false"},
	}
	for name, w := range wires {
		t.Run(name, func(t *testing.T) {
			for _, tc := range []struct {
				args []string
				want string
			}{{nil, w.byDefault}, {[]string{"--" + name + "=" + w.value}, w.set}} {
				o, err := parseOptions(tc.args, inPod)
				if err != nil {
					t.Fatal(err)
				}
				if got := w.observe(t, o); got != tc.want {
					t.Errorf("with %q: %q, want %q", tc.args, got, tc.want)
				}
			}
		})
	}
	documented, err := os.ReadFile("docs/flags.txt") // see TestFlagsGolden
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^  -(\S+)`).FindAllStringSubmatch(string(documented), -1) {
		names = append(names, match[1])
	}
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(wires))); diff != "" {
		t.Errorf("the flags that are observed here (-flags +observed):\n%s", diff)
	}
}

// logged describes the lines of the log.
func logged(_ *testing.T, o *options) string {
	var written bytes.Buffer
	log := zap.New(zap.UseFlagOptions(&o.zap), zap.WriteTo(&written))
	log.Error(errors.New("boom"), "failing")
	verbosity := 0
	for log.V(verbosity + 1).Enabled() {
		verbosity++
	}
	line := written.String()
	isText := strings.HasPrefix(strings.TrimPrefix(line, `{"level":"error","ts":"`), "2")
	return fmt.Sprintf("JSON %t, text time %t, verbosity %d, stack %t", strings.HasPrefix(line, "{"), isText, verbosity,
		strings.Contains(line, "options_test.go"))
}

// Each of several flags adds ranges, as the chart writes a list.
func TestRangesAddUp(t *testing.T) {
	o, err := parseOptions([]string{"--endpoint-deny-cidr=10.0.0.0/8", "--endpoint-deny-cidr=fd00::/8"}, inPod)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(o.buckets.DenyCIDRs); got != "[10.0.0.0/8 fd00::/8]" {
		t.Errorf("denied are %s, want both ranges", got)
	}
}

// stderr redirects what the flag package prints to a file, and returns its name.
func stderr(t *testing.T) string {
	t.Helper()
	before := os.Stderr
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = file
	t.Cleanup(func() { os.Stderr = before; _ = file.Close() })
	return file.Name()
}

// --version needs no environment, and wrong arguments are errors with it too.
func TestVersionFlag(t *testing.T) {
	o, err := parseOptions([]string{"--version"}, environment())
	if err != nil || !o.showVersion {
		t.Errorf("parseOptions(--version) = %v, showVersion %t, want nil and true", err, o != nil && o.showVersion)
	}
	if _, err := parseOptions([]string{"--version", "now"}, environment()); err == nil ||
		!strings.Contains(err.Error(), `unexpected argument "now"`) {
		t.Errorf("parseOptions(--version now) = %v, want unexpected argument", err)
	}
}

func TestBuildInfoMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(buildInfo(version.Info{Version: "v0.1.0", Revision: "c3f5a0a", GoVersion: "go1.26.0",
		Platform: "linux/amd64"})); err != nil {
		t.Fatal(err)
	}
	const want = `# HELP leasehold_build_info Always 1, labeled with the version, the commit and the Go version of the operator.
# TYPE leasehold_build_info gauge
leasehold_build_info{goversion="go1.26.0",revision="c3f5a0a",version="v0.1.0"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestNamePrefix(t *testing.T) {
	for pod, want := range map[string]string{
		"": "leasehold-", "manager-0": "leasehold-", "leasehold-controller-manager-5d-x": "leasehold-",
		"ops-leasehold-controller-manager-5d-x": "ops-leasehold-", "controller-manager-5d-x": "",
	} {
		environment := map[string]string{"POD_NAME": pod, "POD_NAMESPACE": "system"}
		o, err := parseOptions(nil, func(name string) string { return environment[name] })
		if err != nil || o.webhookPrefix != want {
			t.Errorf("Pod %q: prefix %q, %v, want %q", pod, o.webhookPrefix, err, want)
		}
	}
}

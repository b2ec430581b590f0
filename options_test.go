// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gotest.tools/v3/golden"
	appsv1 "k8s.io/api/apps/v1"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
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
		"LeaseSeconds": {"must be whole seconds, at least 1s",
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
		"ViewerImage": {`--default-viewer-image "Upper:case": the name of an image must be like`,
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
		"DenyMapped": {"write it as IPv4",
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
	for _, want := range []string{"set POD_NAMESPACE", "--kube-api-qps", "--sync-period"} {
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

// ranges returns the value of a flag that takes several CIDRs.
func ranges(cidrs ...string) (all prefixes) {
	for _, cidr := range cidrs {
		all = append(all, netip.MustParsePrefix(cidr))
	}
	return all
}

// Each flag sets its own option and no other. All values differ.
func TestFlagsSetTheirOptions(t *testing.T) {
	o, err := parseOptions([]string{
		"--metrics-bind-address=:1", "--metrics-secure=false", "--metrics-cert-path=/metrics",
		"--webhook-bind-address=host:2", "--webhook-cert-path=/webhooks",
		"--tenant-admin-cluster-role=role", "--tenant-pod-security-level=restricted", "--sync-period=3s",
		"--tenant-reserved-namespaces=a,b-*",
		"--default-viewer-image=viewer:v1", "--max-concurrent-reconciles=5", "--max-concurrent-probes=6",
		"--endpoint-allow-cidr=10.1.2.3/8, fd00::/8", "--endpoint-allow-cidr=127.0.0.1/32", "--endpoint-deny-cidr=11.0.0.0/8",
	}, inPod)
	if err != nil {
		t.Fatal(err)
	}
	metrics, webhooks := o.metrics(), o.webhooks(nil)
	metrics.TLSOpts, webhooks.TLSOpts = nil, nil // see TestHTTP2IsOff
	for what, pair := range map[string][2]any{
		"metrics":  {metricsserver.Options{BindAddress: ":1", CertDir: "/metrics"}, metrics},
		"webhooks": {webhook.Options{Host: "host", Port: 2, CertDir: "/webhooks"}, webhooks},
		"tenants": {tenant.Options{
			AdminClusterRole: "role", PodSecurityLevel: "restricted", OperatorNamespace: "system", MaxConcurrentReconciles: 5,
			ReservedNamespaces: []string{"a", "b-*"},
		}, o.tenants()},
		"buckets": {storagebucket.Options{
			MaxConcurrentReconciles: 6,
			AllowCIDRs:              ranges("10.0.0.0/8", "fd00::/8", "127.0.0.1/32"),
			DenyCIDRs:               ranges("11.0.0.0/8"),
		}, o.storageBuckets()},
		"views": {markdownview.Options{DefaultViewerImage: "viewer:v1", MaxConcurrentReconciles: 5}, o.markdownViews()},
	} {
		if diff := cmp.Diff(pair[0], pair[1], cmpopts.IgnoreUnexported(net.ListenConfig{}),
			cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestHTTP2IsOff(t *testing.T) {
	o, err := parseOptions(nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	source, err := o.certificate()
	if err != nil {
		t.Fatal(err)
	}
	for server, options := range map[string][]func(*tls.Config){"metrics": o.metrics().TLSOpts,
		"webhooks": o.webhooks(nil).TLSOpts, "webhooks with a Secret": o.webhooks(source).TLSOpts} {
		// controller-runtime's own default.
		config := &tls.Config{NextProtos: []string{"h2"}}
		for _, option := range options {
			option(config)
		}
		if slices.Contains(config.NextProtos, "h2") {
			t.Errorf("%s offer HTTP/2", server)
		}
	}
}

func TestCertificateComesFromTheSecretOrFromFiles(t *testing.T) {
	cases := map[string]struct {
		args []string
		want bool
	}{
		"Secret": {nil, true},
		"Files":  {[]string{"--webhook-cert-path=/certs"}, false},
		"None":   {[]string{"--enable-webhooks=false"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			o, err := parseOptions(tc.args, inPod)
			if err != nil {
				t.Fatal(err)
			}
			source, err := o.certificate()
			if err != nil {
				t.Fatal(err)
			}
			if (source != nil) != tc.want {
				t.Errorf("a source for the Secret: %t, want %t", source != nil, tc.want)
			}
			config := &tls.Config{}
			for _, option := range o.webhooks(source).TLSOpts {
				option(config)
			}
			if (config.GetCertificate != nil) != tc.want {
				t.Fatalf("GetCertificate is set: %t, want %t", config.GetCertificate != nil, tc.want)
			}
			if !tc.want {
				return
			}
			const secret = "Secret system/leasehold-webhook-server-cert is empty"
			if _, err := config.GetCertificate(nil); err == nil || !strings.Contains(err.Error(), secret) {
				t.Errorf("GetCertificate() = %v, want %q in it", err, secret)
			}
		})
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
	const want = `# HELP leasehold_build_info 1, with the version, the commit and the Go version that the operator was built from.
# TYPE leasehold_build_info gauge
leasehold_build_info{goversion="go1.26.0",revision="c3f5a0a",version="v0.1.0"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// The manager's image has no certificates, so the program's own roots are used.
func TestRootsWithoutCertificatesOfTheSystem(t *testing.T) {
	const none = "/nonexistent"
	if os.Getenv("SSL_CERT_DIR") != none {
		self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		self.Env = append(os.Environ(), "SSL_CERT_FILE="+none, "SSL_CERT_DIR="+none)
		if printed, err := self.CombinedOutput(); err != nil {
			t.Errorf("without files of certificates: %v\n%s", err, printed)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil || roots.Equal(x509.NewCertPool()) {
		t.Errorf("no roots (%v)", err)
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

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
	authorizationv1 "k8s.io/api/authorization/v1"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners/access"
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
		"Namespace": {"set POD_NAMESPACE or --leader-election-namespace",
			[][]string{{"--leader-election-namespace="}}, [][]string{{"--leader-election-namespace=a"}}},
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
		"ShutdownDelay": {"--shutdown-delay-duration -1ns must not be negative",
			[][]string{{"--shutdown-delay-duration=-1ns"}}, [][]string{{"--shutdown-delay-duration=0s"}}},
		"Shutdown": {"--graceful-shutdown-timeout 0s must be positive",
			[][]string{{"--graceful-shutdown-timeout=0s"}}, [][]string{{"--graceful-shutdown-timeout=1ns"}}},
		"Stuck": {"--stuck-after 0s must be positive", [][]string{{"--stuck-after=0s"}},
			[][]string{{"--stuck-after=1ns"}}},
		"Sync": {"--tenant-sync-period 0s must be positive", [][]string{{"--tenant-sync-period=0"}},
			[][]string{{"--tenant-sync-period=1ns"}}},
		"ViewSync": {"--markdownview-sync-period 0s must be positive", [][]string{{"--markdownview-sync-period=0"}},
			[][]string{{"--markdownview-sync-period=1ns"}}},
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
		"Burst": {"--kube-api-burst 0 must be positive", [][]string{{"--kube-api-burst=0"}},
			[][]string{{"--kube-api-burst=1"}}},
		"AdminRole": {"--tenant-admin-cluster-role must not be empty", [][]string{{"--tenant-admin-cluster-role="}},
			[][]string{{"--tenant-admin-cluster-role=a"}}},
		"SecurityLevel": {"must be privileged, baseline, restricted or empty",
			[][]string{{"--tenant-pod-security-level=Baseline"}, {"--tenant-pod-security-level= "}},
			[][]string{{"--tenant-pod-security-level="}, {"--tenant-pod-security-level=privileged"},
				{"--tenant-pod-security-level=restricted"}}},
		"Port": {"must be between 1 and 65535",
			[][]string{{"--webhook-port=0"}, {"--webhook-port=65536"}},
			[][]string{{"--webhook-port=1"}, {"--webhook-port=65535"}, {"--webhook-port=0", "--enable-webhooks=false"}}},
		"WebhookSecret": {"--webhook-secret and --webhook-service must be set",
			[][]string{{"--webhook-secret="}, {"--webhook-service="}},
			[][]string{{"--webhook-secret=", "--webhook-service=", "--webhook-cert-path=/certs"},
				{"--webhook-secret=", "--enable-webhooks=false"}}},
		"AllowRange": {`"10.0.0.1" is not a CIDR such as 10.0.0.0/8`,
			[][]string{{"--endpoint-allow-cidr=10.0.0.1"}}, [][]string{{"--endpoint-allow-cidr=10.0.0.1/32"}}},
		"DenyRange": {`"example.com" is not a CIDR`,
			[][]string{{"--endpoint-deny-cidr=10.0.0.0/8,example.com"}},
			[][]string{{"--endpoint-deny-cidr=10.0.0.0/8, fd00::/8"}}},
		"DenyMapped": {"write it as IPv4",
			[][]string{{"--endpoint-deny-cidr=::ffff:10.0.0.0/104"}}, [][]string{{"--endpoint-deny-cidr=64:ff9b::/96"}}},
		"ServiceRange": {`"10.96.0.0" is not a CIDR`,
			[][]string{{"--service-cidr=10.96.0.0"}}, [][]string{{"--service-cidr=10.96.0.0/12"}}},
		"RemovalGrace": {"--bucket-removal-grace-period -1ns must not be negative",
			[][]string{{"--bucket-removal-grace-period=-1ns"}}, [][]string{{"--bucket-removal-grace-period=0s"}}},
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
	_, err := parseOptions([]string{"--kube-api-burst=0", "--stuck-after=0s"}, inPod)
	if err == nil || !strings.Contains(err.Error(), "--kube-api-burst") ||
		!strings.Contains(err.Error(), "--stuck-after") {
		t.Errorf("parseOptions() = %v, want both problems", err)
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
		"--metrics-bind-address=:1", "--metrics-secure=false", "--metrics-cert-path=/metrics", "--metrics-cert-name=m.crt",
		"--metrics-cert-key=m.key",
		"--enable-http2", "--leader-election-namespace=own", "--webhook-host=host", "--webhook-port=2",
		"--webhook-cert-path=/webhooks", "--webhook-cert-name=w.crt", "--webhook-cert-key=w.key",
		"--tenant-admin-cluster-role=role", "--tenant-pod-security-level=restricted", "--tenant-sync-period=3s",
		"--default-viewer-image=viewer:v1", "--markdownview-sync-period=4s", "--max-concurrent-reconciles=5",
		"--max-concurrent-probes=6",
		"--endpoint-allow-cidr=10.1.2.3/8, fd00::/8", "--endpoint-allow-cidr=127.0.0.1/32", "--endpoint-deny-cidr=11.0.0.0/8",
		"--service-cidr=12.0.0.0/8", "--service-cidr=fd00:96::/112",
		"--bucket-removal-grace-period=7s",
	}, inPod)
	if err != nil {
		t.Fatal(err)
	}
	remedy := `add "role" to the resourceNames beside bind in config/rbac/manager_role.yaml, or change --tenant-admin-cluster-role`
	for what, pair := range map[string][2]any{
		"metrics": {metricsserver.Options{BindAddress: ":1", CertDir: "/metrics", CertName: "m.crt", KeyName: "m.key"},
			o.metrics()},
		"webhooks": {webhook.Options{Host: "host", Port: 2, CertDir: "/webhooks", CertName: "w.crt", KeyName: "w.key"},
			o.webhooks(nil)},
		"tenants": {tenant.Options{
			AdminClusterRole: "role", PodSecurityLevel: "restricted", OperatorNamespace: "own", MaxConcurrentReconciles: 5,
			SyncPeriod: 3 * time.Second,
		}, o.tenants()},
		"buckets": {storagebucket.Options{
			MaxConcurrentReconciles: 6, RemovalGrace: 7 * time.Second,
			AllowCIDRs:   ranges("10.0.0.0/8", "fd00::/8", "127.0.0.1/32"),
			DenyCIDRs:    ranges("11.0.0.0/8"),
			ServiceCIDRs: ranges("12.0.0.0/8", "fd00:96::/112"),
		}, o.storageBuckets()},
		"views": {markdownview.Options{DefaultViewerImage: "viewer:v1", MaxConcurrentReconciles: 5}, o.markdownViews()},
		"right": {access.Right{ResourceAttributes: authorizationv1.ResourceAttributes{
			Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Verb: "bind", Name: "role"}, Remedy: remedy},
			o.adminRight()},
	} {
		if diff := cmp.Diff(pair[0], pair[1], cmpopts.IgnoreUnexported(net.ListenConfig{}),
			cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestHTTP2IsOffByDefault(t *testing.T) {
	for args, want := range map[string]bool{"--enable-http2=false": false, "--enable-http2=true": true} {
		o, err := parseOptions([]string{args, "--webhook-cert-path=/certs"}, inPod)
		if err != nil {
			t.Fatal(err)
		}
		for server, options := range map[string][]func(*tls.Config){"metrics": o.metrics().TLSOpts,
			"webhooks": o.webhooks(nil).TLSOpts} {
			// controller-runtime's own default.
			config := &tls.Config{NextProtos: []string{"h2"}}
			for _, option := range options {
				option(config)
			}
			if got := slices.Contains(config.NextProtos, "h2"); got != want {
				t.Errorf("%s: %s offers HTTP/2: %t, want %t", args, server, got, want)
			}
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

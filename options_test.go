package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
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

var inPod = environment("POD_NAME", "manager-0", "POD_NAMESPACE", "system")

func TestOptionsDefaults(t *testing.T) {
	o, err := parseOptions(nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	if o.electionNamespace != "system" || o.podName != "manager-0" {
		t.Errorf("namespace %q, pod %q, want those of the environment", o.electionNamespace, o.podName)
	}
	if o.leaderElect || !o.metricsSecure || o.enableHTTP2 || !o.enableWebhooks {
		t.Errorf("leaderElect %t, metricsSecure %t, enableHTTP2 %t, enableWebhooks %t, want false true false true",
			o.leaderElect, o.metricsSecure, o.enableHTTP2, o.enableWebhooks)
	}
	if got := o.tenants(); got.OperatorNamespace != "system" || got.AdminClusterRole != "admin" || got.SyncPeriod != 10*time.Minute {
		t.Errorf("tenants() = %+v", got)
	}
}

func TestOptionsFlagBeatsEnvironment(t *testing.T) {
	o, err := parseOptions([]string{"--leader-election-namespace=other"}, inPod)
	if err != nil {
		t.Fatal(err)
	}
	if o.electionNamespace != "other" {
		t.Errorf("namespace %q, want the flag's", o.electionNamespace)
	}
}

func TestOptionsRefused(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"NoNamespace":    {[]string{"--leader-election-namespace="}, "set POD_NAMESPACE or --leader-election-namespace"},
		"NoLeaseName":    {[]string{"--leader-election-id="}, "--leader-election-id must not be empty"},
		"LeaseFraction":  {[]string{"--leader-elect-lease-duration=15500ms"}, "must be whole seconds"},
		"LeaseTooShort":  {[]string{"--leader-elect-lease-duration=0s"}, "must be whole seconds, at least 1s"},
		"RenewTooLong":   {[]string{"--leader-elect-renew-deadline=14s"}, "a second leader could start before the first has stopped"},
		"RetryTooLong":   {[]string{"--leader-elect-retry-period=9s"}, "longer than 1.2 times"},
		"RetryZero":      {[]string{"--leader-elect-retry-period=0s"}, "--leader-elect-retry-period 0s must be positive"},
		"ShutdownDelay":  {[]string{"--shutdown-delay-duration=-1s"}, "--shutdown-delay-duration -1s must not be negative"},
		"Shutdown":       {[]string{"--graceful-shutdown-timeout=0s"}, "--graceful-shutdown-timeout 0s must be positive"},
		"Stuck":          {[]string{"--stuck-after=-1s"}, "--stuck-after -1s must be positive"},
		"Sync":           {[]string{"--tenant-sync-period=0"}, "--tenant-sync-period 0s must be positive"},
		"NoViewer":       {[]string{"--default-viewer-image="}, "--default-viewer-image must not be empty"},
		"ViewerImage":    {[]string{"--default-viewer-image=Upper:case"}, `--default-viewer-image "Upper:case": the name of an image must be like`},
		"ViewSync":       {[]string{"--markdownview-sync-period=0"}, "--markdownview-sync-period 0s must be positive"},
		"ProbeTick":      {[]string{"--probe-tick-interval=0"}, "--probe-tick-interval 0s must be positive"},
		"ProbeWorkers":   {[]string{"--max-concurrent-probes=0"}, "--max-concurrent-probes 0 must be positive"},
		"AllowNoRange":   {[]string{"--endpoint-allow-cidr=10.0.0.1"}, `"10.0.0.1" is no range of addresses such as 10.0.0.0/8`},
		"DenyMapped":     {[]string{"--endpoint-deny-cidr=::ffff:10.0.0.0/104"}, "write it as one of IPv4"},
		"DenyNoRange":    {[]string{"--endpoint-deny-cidr=10.0.0.0/8,example.com"}, `"example.com" is no range of addresses`},
		"Workers":        {[]string{"--max-concurrent-reconciles=0"}, "--max-concurrent-reconciles 0 must be positive"},
		"QPS":            {[]string{"--kube-api-qps=0"}, "--kube-api-qps 0 must be positive"},
		"Burst":          {[]string{"--kube-api-burst=0"}, "--kube-api-burst 0 must be positive"},
		"AdminRole":      {[]string{"--tenant-admin-cluster-role="}, "--tenant-admin-cluster-role must not be empty"},
		"SecurityLevel":  {[]string{"--tenant-pod-security-level=lax"}, `"lax" must be privileged, baseline, restricted or empty`},
		"Port":           {[]string{"--webhook-port=70000"}, "--webhook-port 70000 must be between"},
		"WebhookSecret":  {[]string{"--webhook-secret="}, "--webhook-secret and --webhook-service must be set"},
		"Argument":       {[]string{"run"}, `unexpected argument "run"`},
		"UnknownFlag":    {[]string{"--no-such-flag"}, "no-such-flag"},
		"SeveralAtOnce1": {[]string{"--kube-api-burst=0", "--stuck-after=0s"}, "--kube-api-burst"},
		"SeveralAtOnce2": {[]string{"--kube-api-burst=0", "--stuck-after=0s"}, "--stuck-after"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			quiet(t)
			_, err := parseOptions(tc.args, inPod)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("parseOptions(%q) = %v, want an error with %q", tc.args, err, tc.want)
			}
		})
	}
}

func TestOptionsAccepted(t *testing.T) {
	cases := map[string][]string{
		"Hasty":          {"--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=300ms"},
		"NoWebhooks":     {"--enable-webhooks=false", "--webhook-port=0", "--webhook-secret="},
		"OwnCertificate": {"--webhook-cert-path=/certs", "--webhook-secret="},
		"NoLevel":        {"--tenant-pod-security-level="},
		"Logging":        {"--zap-log-level=debug", "--zap-devel"},
		"Kubeconfig":     {"--kubeconfig=/kubeconfig"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parseOptions(args, inPod); err != nil {
				t.Errorf("parseOptions(%q) = %v", args, err)
			}
		})
	}
}

func TestRangesOfEndpoints(t *testing.T) {
	o, err := parseOptions([]string{
		"--endpoint-allow-cidr=10.1.2.3/8, fd00::/8", "--endpoint-allow-cidr=127.0.0.1/32", "--endpoint-deny-cidr=192.0.2.0/24",
	}, inPod)
	if err != nil {
		t.Fatal(err)
	}
	buckets := o.storageBuckets()
	if got := prefixes(buckets.AllowCIDRs); got.String() != "10.0.0.0/8,fd00::/8,127.0.0.1/32" {
		t.Errorf("allowed: %s", got.String())
	}
	if got := prefixes(buckets.DenyCIDRs); got.String() != "192.0.2.0/24" {
		t.Errorf("denied: %s", got.String())
	}
	if buckets.MaxConcurrentReconciles != 8 || o.probeTick != time.Second {
		t.Errorf("%d workers, a tick of %s, want 8 and 1s", buckets.MaxConcurrentReconciles, o.probeTick)
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	quiet(t)
	if _, err := parseOptions([]string{"--help"}, inPod); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parseOptions(--help) = %v, want flag.ErrHelp", err)
	}
}

func TestHTTP2IsOffUnlessAskedFor(t *testing.T) {
	for args, want := range map[string]bool{"--enable-http2=false": false, "--enable-http2=true": true} {
		o, err := parseOptions([]string{args, "--webhook-cert-path=/certs"}, inPod)
		if err != nil {
			t.Fatal(err)
		}
		for server, options := range map[string][]func(*tls.Config){"metrics": o.metrics().TLSOpts, "webhooks": o.webhooks(nil).TLSOpts} {
			// What controller-runtime offers before the options are applied.
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

func TestMetricsAreGuarded(t *testing.T) {
	for args, want := range map[string]bool{"--metrics-secure=true": true, "--metrics-secure=false": false} {
		o, err := parseOptions([]string{args}, inPod)
		if err != nil {
			t.Fatal(err)
		}
		m := o.metrics()
		if m.SecureServing != want || (m.FilterProvider != nil) != want {
			t.Errorf("%s: HTTPS %t, guarded %t, want %t", args, m.SecureServing, m.FilterProvider != nil, want)
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
		})
	}
}

// quiet drops the usage that the flag package prints.
func quiet(t *testing.T) {
	t.Helper()
	stderr := os.Stderr
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = null
	t.Cleanup(func() { os.Stderr = stderr; _ = null.Close() })
}

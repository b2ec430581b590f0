// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners/election"
	"leasehold.dev/runners/servingcert"
)

// exemptNamespaces are the names that platforms exempt from admission policies or Pod security by name: Azure
// Policy, Gatekeeper, Istio, Kyverno, Linkerd, and Rancher in its templates. The admins of a Tenant would
// be exempt, too. docs/decisions/rights.md has the reason for each.
const exemptNamespaces = "azure-arc,azure-extensions-usage-system,calico-apiserver,calico-system,cattle-*,cert-manager," +
	"cis-operator-system,fleet-default,fleet-local,fleet-system,gatekeeper-system,ingress-nginx,istio-system,kyverno,linkerd," +
	"longhorn-system,rancher-alerting-drivers,security-scan,tigera-operator"

var namePatterns = regexp.MustCompile(`^([-a-z0-9*]+(,[-a-z0-9*]+)*)?$`)

// options are the values of the flags and the environment.
type options struct {
	showVersion bool

	metrics         metricsserver.Options
	probeAddress    string
	shutdownTimeout time.Duration

	leaderElect   bool
	leaseDuration time.Duration
	election      election.Options // its Lease is in the operator's namespace

	enableWebhooks bool
	webhooks       webhook.Options
	webhookPrefix  string

	tenants               tenant.Options
	buckets               storagebucket.Options
	views                 markdownview.Options
	reservedNamespaces    string
	syncPeriod, probeTick time.Duration

	apiQPS float64
	zap    zap.Options
}

// parseOptions reads the command line and the environment.
func parseOptions(args []string, getenv func(string) string) (*options, error) {
	o := &options{
		metrics:  metricsserver.Options{TLSOpts: http1},
		webhooks: webhook.Options{Port: 9443, TLSOpts: http1},
		election: election.Options{
			Lease:   types.NamespacedName{Namespace: getenv("POD_NAMESPACE")},
			PodName: getenv("POD_NAME"), PodUID: types.UID(getenv("POD_UID")), Container: getenv("POD_CONTAINER"),
			Clock: clock.RealClock{}, Evidence: true,
		},
		// A stack follows a panic alone. Behind each error it would hide what the error says.
		zap: zap.Options{StacktraceLevel: zapcore.PanicLevel},
	}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.BoolVar(&o.showVersion, "version", false,
		"Print the version, the commit, the Go version and the platform, then exit.")
	o.bindServing(flags)
	o.bindElection(flags)
	o.bindWork(flags)
	config.RegisterFlags(flags)
	o.zap.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: all settings are flags", flags.Arg(0))
	}
	// The version is printed wherever the program runs, in a Pod or not.
	if o.showVersion {
		return o, nil
	}
	if o.metrics.SecureServing {
		o.metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	o.tenants.OperatorNamespace = o.election.Lease.Namespace
	o.tenants.ReservedNamespaces = strings.Split(o.reservedNamespaces, ",")
	o.views.MaxConcurrentReconciles = o.tenants.MaxConcurrentReconciles
	return o, o.validate()
}

// namePrefix returns the prefix of the installation's names, which an overlay can change, by the name of
// this replica's Pod.
func namePrefix(pod string) string {
	if prefix, _, found := strings.Cut(pod, "controller-manager-"); found {
		return prefix
	}
	return "leasehold-"
}

func (o *options) bindServing(f *flag.FlagSet) {
	f.StringVar(&o.metrics.BindAddress, "metrics-bind-address", ":8443",
		"The address to serve metrics on. Set to \"0\" to disable the metrics endpoint.")
	f.BoolVar(&o.metrics.SecureServing, "metrics-secure", true,
		"Serve metrics over HTTPS, and only to clients that the API server authenticates and that RBAC allows to get "+
			"/metrics. If false, serve them over HTTP to any client.")
	f.StringVar(&o.metrics.CertDir, "metrics-cert-path", "",
		"The directory that contains tls.crt and tls.key for the metrics endpoint. If empty, a self-signed "+
			"certificate is generated at each start.")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"The address to serve /healthz and /readyz on. Set to \"0\" to disable the health probes.")
	f.DurationVar(&o.shutdownTimeout, "graceful-shutdown-timeout", 30*time.Second,
		"How long to wait at shutdown for running reconciles and requests to finish.")
	f.BoolVar(&o.enableWebhooks, "enable-webhooks", true,
		"Serve the admission webhooks. Disable them only where no webhook configuration of the operator is "+
			"installed.")
	f.Func("webhook-bind-address",
		"The address to serve the admission webhooks on. The host may be empty. (default :9443)", o.listenOn)
	f.StringVar(&o.webhooks.CertDir, "webhook-cert-path", "",
		"The directory that contains tls.crt and tls.key for the webhook server. If empty, the leader issues a "+
			"certificate, renews it, and stores it in a Secret.")
	f.StringVar(&o.webhookPrefix, "webhook-name-prefix", namePrefix(o.election.PodName),
		"The prefix of the names of the webhooks' Service, configurations and Secret. Defaults to the part of "+
			"POD_NAME before controller-manager, and without POD_NAME to leasehold-.")
}

func (o *options) bindElection(f *flag.FlagSet) {
	f.BoolVar(&o.leaderElect, "leader-elect", false,
		"Enable leader election, so that only one replica reconciles at a time. Required with more than one "+
			"replica.")
	f.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"How long a candidate waits after the last renewal before it takes over an expired Lease. Whole seconds.")
	f.DurationVar(&o.election.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long the leader retries a failed renewal before it gives up leadership and exits. Must be shorter than "+
			"the lease duration.")
	f.DurationVar(&o.election.RetryPeriod, "leader-elect-retry-period", 2*time.Second,
		"How long a replica waits between two attempts to acquire or renew the Lease.")
	f.StringVar(&o.election.Lease.Name, "leader-election-id", "manager.leasehold.dev",
		"The name of the Lease of the leader election. The admission policy in config/fencing must use the same "+
			"name.")
}

func (o *options) bindWork(f *flag.FlagSet) {
	f.StringVar(&o.tenants.AdminClusterRole, "tenant-admin-cluster-role", "admin",
		"The name of the ClusterRole to bind to the admins of a Tenant in the namespaces of the Tenant. The operator's "+
			"own ClusterRole must allow the verb bind on that ClusterRole.")
	f.StringVar(&o.tenants.PodSecurityLevel, "tenant-pod-security-level", "baseline",
		"The Pod Security level to enforce in the namespaces of Tenants: privileged, baseline or restricted. If "+
			"empty, none is set.")
	f.StringVar(&o.reservedNamespaces, "tenant-reserved-namespaces", exemptNamespaces,
		"The names of namespaces that no Tenant may create or adopt, separated by commas. An asterisk matches any "+
			"characters. The value replaces this default list. The namespaces default, kube-* and openshift-* and the "+
			"operator's own namespace are always reserved.")
	f.StringVar(&o.views.DefaultViewerImage, "default-viewer-image", "leasehold-viewer:dev",
		"The image of the viewers of MarkdownViews that do not set spec.viewerImage. Use a fixed tag or a digest.")
	f.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute,
		"How often to reconcile Tenants and MarkdownViews even if nothing has changed.")
	f.IntVar(&o.tenants.MaxConcurrentReconciles, "max-concurrent-reconciles", 4,
		"The maximum number of Tenants to reconcile at the same time. The same limit applies separately to "+
			"MarkdownViews.")
	f.DurationVar(&o.probeTick, "probe-tick-interval", time.Second,
		"How often to check which StorageBuckets are due for a probe.")
	f.IntVar(&o.buckets.MaxConcurrentReconciles, "max-concurrent-probes", 32,
		"The maximum number of StorageBuckets to probe at the same time. A probe uses up to 1 MiB of memory while it waits for its endpoint, "+
			"and needs up to 3 MiB while it reads a Secret or a ConfigMap of 1 MiB.")
	f.Func("endpoint-allow-cidr",
		"A CIDR that StorageBucket endpoints may resolve to although the operator refuses it by default, such as "+
			"127.0.0.0/8. May be repeated.", addPrefixes(&o.buckets.AllowCIDRs))
	f.Func("endpoint-deny-cidr",
		"A CIDR that StorageBucket endpoints must not resolve to, such as the cluster's Service, Pod and node "+
			"ranges. Takes precedence over --endpoint-allow-cidr. May be repeated.", addPrefixes(&o.buckets.DenyCIDRs))
	f.Float64Var(&o.apiQPS, "kube-api-qps", 50,
		"The maximum number of requests per second to the API server, separately for each kind of object. Bursts "+
			"may be twice as large.")
}

// validate reports all invalid options, not only the first.
func (o *options) validate() error {
	var errs []error
	require := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(o.election.Lease.Namespace != "",
		"the namespace of the operator is unknown: set the environment variable POD_NAMESPACE")
	require(o.election.Lease.Name != "", "--leader-election-id must not be empty")
	require(o.leaseDuration >= time.Second && o.leaseDuration%time.Second == 0,
		"--leader-elect-lease-duration %s must be a whole number of seconds, at least 1s", o.leaseDuration)
	require(o.leaseDuration <= election.MaxLeaseDuration,
		"--leader-elect-lease-duration %s must not be longer than %s", o.leaseDuration, election.MaxLeaseDuration)
	require(o.election.RetryPeriod > 0, "--leader-elect-retry-period %s must be positive", o.election.RetryPeriod)
	// The elector waits up to 1.2 retry periods between two tries.
	require(o.election.RenewDeadline > o.election.RetryPeriod+o.election.RetryPeriod/5,
		"--leader-elect-renew-deadline %s must be longer than 1.2 times --leader-elect-retry-period %s, so that "+
			"there is time for a second attempt",
		o.election.RenewDeadline, o.election.RetryPeriod)
	// A leader that cannot reach the API server continues for this long.
	require(o.leaseDuration >= o.election.RenewDeadline+o.election.RetryPeriod,
		"--leader-elect-lease-duration %s must not be shorter than --leader-elect-renew-deadline %s plus "+
			"--leader-elect-retry-period %s, or a second leader could start before the first has stopped",
		o.leaseDuration, o.election.RenewDeadline, o.election.RetryPeriod)
	require(o.shutdownTimeout > 0, "--graceful-shutdown-timeout %s must be positive", o.shutdownTimeout)
	require(o.syncPeriod > 0, "--sync-period %s must be positive", o.syncPeriod)
	require(o.views.DefaultViewerImage != "", "--default-viewer-image must not be empty")
	if err := markdownview.ValidateImage(o.views.DefaultViewerImage); o.views.DefaultViewerImage != "" && err != nil {
		errs = append(errs, fmt.Errorf("--default-viewer-image %q: %w", o.views.DefaultViewerImage, err))
	}
	require(o.tenants.MaxConcurrentReconciles > 0,
		"--max-concurrent-reconciles %d must be positive", o.tenants.MaxConcurrentReconciles)
	require(o.probeTick > 0, "--probe-tick-interval %s must be positive", o.probeTick)
	require(o.buckets.MaxConcurrentReconciles > 0,
		"--max-concurrent-probes %d must be positive", o.buckets.MaxConcurrentReconciles)
	require(o.apiQPS > 0, "--kube-api-qps %g must be positive", o.apiQPS)
	require(o.tenants.AdminClusterRole != "", "--tenant-admin-cluster-role must not be empty")
	require(namePatterns.MatchString(o.reservedNamespaces), "--tenant-reserved-namespaces %q must be names of "+
		"namespaces, separated by commas without spaces; * matches any characters", o.reservedNamespaces)
	require(slices.Contains([]string{"", "privileged", "baseline", "restricted"}, o.tenants.PodSecurityLevel),
		"--tenant-pod-security-level %q must be privileged, baseline, restricted or empty", o.tenants.PodSecurityLevel)
	return errors.Join(errs...)
}

// http1 turns HTTP/2 off: its stream resets have let a few clients exhaust servers (CVE-2023-44487,
// CVE-2023-39325).
var http1 = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}

// certificate returns nil where the webhooks are off or read their certificate from files.
func (o *options) certificate() (*servingcert.Source, error) {
	if !o.enableWebhooks || o.webhooks.CertDir != "" {
		return nil, nil
	}
	secret := types.NamespacedName{Namespace: o.election.Lease.Namespace, Name: o.webhookPrefix + "webhook-server-cert"}
	return servingcert.NewSource(secret)
}

// addPrefixes returns the parser of a flag that can be given several times, or with commas.
func addPrefixes(to *[]netip.Prefix) func(string) error {
	return func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			prefix, err := netip.ParsePrefix(strings.TrimSpace(part))
			if err != nil {
				return fmt.Errorf("%q is not a CIDR such as 10.0.0.0/8", part)
			}
			if prefix.Addr().Is4In6() {
				return fmt.Errorf("%q is an IPv4 range written as IPv6; write the range as IPv4", part)
			}
			*to = append(*to, prefix.Masked())
		}
		return nil
	}
}

// listenOn sets the address of the webhooks. The host may be empty.
func (o *options) listenOn(text string) error {
	host, text, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("the address must be host:port or :port")
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return errors.New("the port must be between 1 and 65535")
	}
	o.webhooks.Host, o.webhooks.Port = host, int(port)
	return nil
}

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

	metricsAddress, metricsCertPath string
	metricsSecure                   bool
	probeAddress                    string
	shutdownTimeout                 time.Duration

	leaderElect                               bool
	leaseDuration, renewDeadline, retryPeriod time.Duration
	electionID                                string

	enableWebhooks                 bool
	webhookAddress                 hostPort
	webhookCertPath, webhookPrefix string

	adminClusterRole, podSecurityLevel string
	reservedNamespaces                 string
	defaultViewerImage                 string
	syncPeriod                         time.Duration
	workers                            int

	probeTick             time.Duration
	probeWorkers          int
	allowCIDRs, denyCIDRs prefixes

	apiQPS float64

	namespace             string    // of the operator and its Lease, from POD_NAMESPACE
	podName, podContainer string    // of this replica, from POD_NAME and POD_CONTAINER
	podUID                types.UID // from POD_UID
	zap                   zap.Options

	lost func(reason string) // ends the process because another replica leads
}

// parseOptions reads the command line and the environment.
func parseOptions(args []string, getenv func(string) string) (*options, error) {
	o := &options{namespace: getenv("POD_NAMESPACE"), podName: getenv("POD_NAME"), podContainer: getenv("POD_CONTAINER"),
		podUID: types.UID(getenv("POD_UID")),
		// A stack follows a panic alone. Behind each error it would hide what the error says.
		zap: zap.Options{StacktraceLevel: zapcore.PanicLevel}}
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
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		"The address to serve metrics on. Set to \"0\" to disable the metrics endpoint.")
	f.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, and only to clients that the API server authenticates and that RBAC allows to get "+
			"/metrics. If false, serve them over HTTP to any client.")
	f.StringVar(&o.metricsCertPath, "metrics-cert-path", "",
		"The directory that contains tls.crt and tls.key for the metrics endpoint. If empty, a self-signed "+
			"certificate is generated at each start.")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"The address to serve /healthz and /readyz on. Set to \"0\" to disable the health probes.")
	f.DurationVar(&o.shutdownTimeout, "graceful-shutdown-timeout", 30*time.Second,
		"How long to wait at shutdown for running reconciles and requests to finish.")
	f.BoolVar(&o.enableWebhooks, "enable-webhooks", true,
		"Serve the admission webhooks. Disable them only where no webhook configuration of the operator is "+
			"installed.")
	o.webhookAddress.port = 9443
	f.Var(&o.webhookAddress, "webhook-bind-address",
		"The address to serve the admission webhooks on. The host may be empty.")
	f.StringVar(&o.webhookCertPath, "webhook-cert-path", "",
		"The directory that contains tls.crt and tls.key for the webhook server. If empty, the leader issues a "+
			"certificate, renews it, and stores it in a Secret.")
	f.StringVar(&o.webhookPrefix, "webhook-name-prefix", namePrefix(o.podName),
		"The prefix of the names of the webhooks' Service, configurations and Secret. Defaults to the part of "+
			"POD_NAME before controller-manager, and without POD_NAME to leasehold-.")
}

func (o *options) bindElection(f *flag.FlagSet) {
	f.BoolVar(&o.leaderElect, "leader-elect", false,
		"Enable leader election, so that only one replica reconciles at a time. Required with more than one "+
			"replica.")
	f.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"How long a candidate waits after the last renewal before it takes over an expired Lease. Whole seconds.")
	f.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long the leader retries a failed renewal before it gives up leadership and exits. Must be shorter than "+
			"the lease duration.")
	f.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"How long a replica waits between two attempts to acquire or renew the Lease.")
	f.StringVar(&o.electionID, "leader-election-id", "manager.leasehold.dev",
		"The name of the Lease of the leader election. The admission policy in config/fencing must use the same "+
			"name.")
}

func (o *options) bindWork(f *flag.FlagSet) {
	f.StringVar(&o.adminClusterRole, "tenant-admin-cluster-role", "admin",
		"The name of the ClusterRole to bind to the admins of a Tenant in the namespaces of the Tenant. The operator's "+
			"own ClusterRole must allow the verb bind on that ClusterRole.")
	f.StringVar(&o.podSecurityLevel, "tenant-pod-security-level", "baseline",
		"The Pod Security level to enforce in the namespaces of Tenants: privileged, baseline or restricted. If "+
			"empty, none is set.")
	f.StringVar(&o.reservedNamespaces, "tenant-reserved-namespaces", exemptNamespaces,
		"The names of namespaces that no Tenant may create or adopt, separated by commas. An asterisk matches any "+
			"characters. The value replaces this default list. The namespaces default, kube-* and openshift-* and the "+
			"operator's own namespace are always reserved.")
	f.StringVar(&o.defaultViewerImage, "default-viewer-image", "leasehold-viewer:dev",
		"The image of the viewers of MarkdownViews that do not set spec.viewerImage. Use a fixed tag or a digest.")
	f.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute,
		"How often to reconcile Tenants and MarkdownViews even if nothing has changed.")
	f.IntVar(&o.workers, "max-concurrent-reconciles", 4,
		"The maximum number of Tenants to reconcile at the same time. The same limit applies separately to "+
			"MarkdownViews.")
	f.DurationVar(&o.probeTick, "probe-tick-interval", time.Second,
		"How often to check which StorageBuckets are due for a probe.")
	f.IntVar(&o.probeWorkers, "max-concurrent-probes", 32,
		"The maximum number of StorageBuckets to probe at the same time. A probe uses up to 1 MiB of memory while it waits for its endpoint, "+
			"and needs up to 3 MiB while it reads a Secret or a ConfigMap of 1 MiB.")
	f.Var(&o.allowCIDRs, "endpoint-allow-cidr",
		"A CIDR that StorageBucket endpoints may resolve to although the operator refuses it by default, such as "+
			"127.0.0.0/8. May be repeated.")
	f.Var(&o.denyCIDRs, "endpoint-deny-cidr",
		"A CIDR that StorageBucket endpoints must not resolve to, such as the cluster's Service, Pod and node "+
			"ranges. Takes precedence over --endpoint-allow-cidr. May be repeated.")
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
	require(o.namespace != "", "the namespace of the operator is unknown: set the environment variable POD_NAMESPACE")
	require(o.electionID != "", "--leader-election-id must not be empty")
	require(o.leaseDuration >= time.Second && o.leaseDuration%time.Second == 0,
		"--leader-elect-lease-duration %s must be a whole number of seconds, at least 1s", o.leaseDuration)
	require(o.leaseDuration <= election.MaxLeaseDuration,
		"--leader-elect-lease-duration %s must not be longer than %s", o.leaseDuration, election.MaxLeaseDuration)
	require(o.retryPeriod > 0, "--leader-elect-retry-period %s must be positive", o.retryPeriod)
	// The elector waits up to 1.2 retry periods between two tries.
	require(o.renewDeadline > o.retryPeriod+o.retryPeriod/5,
		"--leader-elect-renew-deadline %s must be longer than 1.2 times --leader-elect-retry-period %s, so that "+
			"there is time for a second attempt",
		o.renewDeadline, o.retryPeriod)
	// A leader that cannot reach the API server continues for this long.
	require(o.leaseDuration >= o.renewDeadline+o.retryPeriod,
		"--leader-elect-lease-duration %s must not be shorter than --leader-elect-renew-deadline %s plus "+
			"--leader-elect-retry-period %s, or a second leader could start before the first has stopped",
		o.leaseDuration, o.renewDeadline, o.retryPeriod)
	require(o.shutdownTimeout > 0, "--graceful-shutdown-timeout %s must be positive", o.shutdownTimeout)
	require(o.syncPeriod > 0, "--sync-period %s must be positive", o.syncPeriod)
	require(o.defaultViewerImage != "", "--default-viewer-image must not be empty")
	if err := markdownview.ValidateImage(o.defaultViewerImage); o.defaultViewerImage != "" && err != nil {
		errs = append(errs, fmt.Errorf("--default-viewer-image %q: %w", o.defaultViewerImage, err))
	}
	require(o.workers > 0, "--max-concurrent-reconciles %d must be positive", o.workers)
	require(o.probeTick > 0, "--probe-tick-interval %s must be positive", o.probeTick)
	require(o.probeWorkers > 0, "--max-concurrent-probes %d must be positive", o.probeWorkers)
	require(o.apiQPS > 0, "--kube-api-qps %g must be positive", o.apiQPS)
	require(o.adminClusterRole != "", "--tenant-admin-cluster-role must not be empty")
	require(namePatterns.MatchString(o.reservedNamespaces), "--tenant-reserved-namespaces %q must be names of "+
		"namespaces, separated by commas without spaces; * matches any characters", o.reservedNamespaces)
	switch o.podSecurityLevel {
	case "", "privileged", "baseline", "restricted":
	default:
		require(false, "--tenant-pod-security-level %q must be privileged, baseline, restricted or empty", o.podSecurityLevel)
	}
	return errors.Join(errs...)
}

func (o *options) tenants() tenant.Options {
	return tenant.Options{
		AdminClusterRole:        o.adminClusterRole,
		PodSecurityLevel:        o.podSecurityLevel,
		OperatorNamespace:       o.namespace,
		ReservedNamespaces:      strings.Split(o.reservedNamespaces, ","),
		MaxConcurrentReconciles: o.workers,
	}
}

func (o *options) storageBuckets() storagebucket.Options {
	return storagebucket.Options{
		MaxConcurrentReconciles: o.probeWorkers,
		AllowCIDRs:              o.allowCIDRs,
		DenyCIDRs:               o.denyCIDRs,
	}
}

func (o *options) markdownViews() markdownview.Options {
	return markdownview.Options{
		DefaultViewerImage:      o.defaultViewerImage,
		MaxConcurrentReconciles: o.workers,
	}
}

func (o *options) metrics() metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure, TLSOpts: http1,
		CertDir: o.metricsCertPath}
	if o.metricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return m
}

func (o *options) webhooks(certificate *servingcert.Source) webhook.Options {
	w := webhook.Options{Host: o.webhookAddress.host, Port: o.webhookAddress.port, TLSOpts: http1,
		CertDir: o.webhookCertPath}
	if certificate != nil {
		w.TLSOpts = append(slices.Clone(http1), func(c *tls.Config) { c.GetCertificate = certificate.GetCertificate })
	}
	return w
}

// http1 turns HTTP/2 off: its stream resets have let a few clients exhaust servers (CVE-2023-44487,
// CVE-2023-39325).
var http1 = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}

// certificate returns nil where the webhooks are off or read their certificate from files.
func (o *options) certificate() (*servingcert.Source, error) {
	if !o.enableWebhooks || o.webhookCertPath != "" {
		return nil, nil
	}
	secret := types.NamespacedName{Namespace: o.namespace, Name: o.webhookPrefix + "webhook-server-cert"}
	return servingcert.NewSource(secret)
}

// prefixes is a flag that can be given several times, or with commas.
type prefixes []netip.Prefix

// String implements flag.Value.
func (p *prefixes) String() string {
	var texts []string
	for _, prefix := range *p {
		texts = append(texts, prefix.String())
	}
	return strings.Join(texts, ",")
}

// Set implements flag.Value.
func (p *prefixes) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is not a CIDR such as 10.0.0.0/8", part)
		}
		if prefix.Addr().Is4In6() {
			return fmt.Errorf("%q is an IPv4 range written as IPv6; write the range as IPv4", part)
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}

// hostPort is a flag with an address to listen on. The host may be empty.
type hostPort struct {
	host string
	port int
}

// String implements flag.Value.
func (h *hostPort) String() string { return net.JoinHostPort(h.host, strconv.Itoa(h.port)) }

// Set implements flag.Value.
func (h *hostPort) Set(text string) error {
	host, text, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("the address must be host:port or :port")
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return errors.New("the port must be between 1 and 65535")
	}
	h.host, h.port = host, int(port)
	return nil
}

package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	"leasehold.dev/runners/access"
	"leasehold.dev/runners/drain"
	"leasehold.dev/runners/election"
	"leasehold.dev/runners/health"
	"leasehold.dev/runners/servingcert"
)

// options are the values of the flags and the environment.
type options struct {
	showVersion bool

	metricsAddress, metricsCertPath, metricsCertName, metricsCertKey string
	metricsSecure, enableHTTP2                                       bool
	probeAddress                                                     string

	leaderElect, leaderElectEvidence          bool
	leaseDuration, renewDeadline, retryPeriod time.Duration
	electionID, electionNamespace             string

	enableWebhooks                               bool
	webhookHost                                  string
	webhookPort                                  int
	webhookCertPath, webhookCertName             string
	webhookCertKey                               string
	webhookSecret, webhookService, webhookPrefix string

	shutdownDelay, shutdownTimeout, stuckAfter time.Duration

	adminClusterRole, podSecurityLevel string
	syncPeriod                         time.Duration
	defaultViewerImage                 string
	viewSyncPeriod                     time.Duration
	workers                            int

	probeTick, removalGrace             time.Duration
	probeWorkers                        int
	allowCIDRs, denyCIDRs, serviceCIDRs prefixes

	apiQPS   float64
	apiBurst int

	podName, podContainer string    // of this replica, from POD_NAME and POD_CONTAINER
	podUID                types.UID // from POD_UID
	zap                   zap.Options

	lost func(reason string) // ends the process because another replica leads
}

// parseOptions reads the command line and the environment. The namespace of the
// operator is --leader-election-namespace, or else POD_NAMESPACE.
func parseOptions(args []string, getenv func(string) string) (*options, error) {
	o := &options{podName: getenv("POD_NAME"), podContainer: getenv("POD_CONTAINER"), podUID: types.UID(getenv("POD_UID"))}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.BoolVar(&o.showVersion, "version", false,
		"Print the version, the commit, the Go version and the platform, and exit.")
	o.bindServing(flags)
	o.bindElection(flags, getenv("POD_NAMESPACE"))
	o.bindWebhooks(flags)
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

func (o *options) bindServing(f *flag.FlagSet) {
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Address of the metrics endpoint; \"0\" turns it off.")
	f.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, to those whom the cluster allows to read them.")
	f.StringVar(&o.metricsCertPath, "metrics-cert-path", "",
		"Folder of the metrics certificate; empty makes a self-signed one.")
	f.StringVar(&o.metricsCertName, "metrics-cert-name", "tls.crt", "File of the metrics certificate in its folder.")
	f.StringVar(&o.metricsCertKey, "metrics-cert-key", "tls.key", "File of the metrics certificate's key in its folder.")
	f.BoolVar(&o.enableHTTP2, "enable-http2", false, "Offer HTTP/2 for metrics and webhooks.")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"Address of /healthz and /readyz; \"0\" turns them off.")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 2*time.Second,
		"How long, after SIGTERM, all goes on while the webhooks make their clients use other connections.")
	f.DurationVar(&o.shutdownTimeout, "graceful-shutdown-timeout", 30*time.Second,
		"How long running work may take to finish at shutdown.")
	f.DurationVar(&o.stuckAfter, "stuck-after", 5*time.Minute,
		"How long one reconcile may run, while others wait, before /healthz fails.")
}

func (o *options) bindElection(f *flag.FlagSet, podNamespace string) {
	f.BoolVar(&o.leaderElect, "leader-elect", false, "Let only one of several replicas act.")
	f.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"How long a Lease that is not renewed keeps others away; whole seconds.")
	f.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long the leader tries to renew before it gives up and exits.")
	f.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"Pause between two tries to get or renew the Lease.")
	f.BoolVar(&o.leaderElectEvidence, "leader-elect-evidence", true,
		"Take over from a leader whose Pod shows that its container has ended, without waiting for its Lease; needs POD_UID and the right to read Pods.")
	f.StringVar(&o.electionID, "leader-election-id", "manager.leasehold.dev", "Name of the Lease.")
	f.StringVar(&o.electionNamespace, "leader-election-namespace", podNamespace,
		"Namespace of the operator and its Lease; POD_NAMESPACE unless set.")
}

func (o *options) bindWebhooks(f *flag.FlagSet) {
	f.BoolVar(&o.enableWebhooks, "enable-webhooks", true, "Serve the admission webhooks.")
	f.StringVar(&o.webhookHost, "webhook-host", "", "Address the webhooks listen on; empty is all of them.")
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "Port the webhooks listen on.")
	f.StringVar(&o.webhookCertPath, "webhook-cert-path", "",
		"Folder of the webhook certificate; empty issues one and keeps it in --webhook-secret.")
	f.StringVar(&o.webhookCertName, "webhook-cert-name", "tls.crt", "File of the webhook certificate in its folder.")
	f.StringVar(&o.webhookCertKey, "webhook-cert-key", "tls.key", "File of the webhook certificate's key in its folder.")
	f.StringVar(&o.webhookSecret, "webhook-secret", "leasehold-webhook-server-cert",
		"Secret that holds the issued webhook certificate; it must exist.")
	f.StringVar(&o.webhookService, "webhook-service", "leasehold-webhook-service",
		"Service of the webhooks, which the certificate names.")
	f.StringVar(&o.webhookPrefix, "webhook-configurations-prefix", "leasehold-",
		"What the names of the two webhook configurations start with.")
}

func (o *options) bindWork(f *flag.FlagSet) {
	f.StringVar(&o.adminClusterRole, "tenant-admin-cluster-role", "admin",
		"ClusterRole that a Tenant's admins get in its namespaces.")
	f.StringVar(&o.podSecurityLevel, "tenant-pod-security-level", "baseline",
		"Pod security level of a Tenant's namespaces: privileged, baseline, restricted, or empty for none.")
	f.DurationVar(&o.syncPeriod, "tenant-sync-period", 10*time.Minute,
		"How often a Ready Tenant is reconciled though nothing changed.")
	f.StringVar(&o.defaultViewerImage, "default-viewer-image", "leasehold-viewer:dev",
		"Image of the viewer of MarkdownViews that name none; give it a tag or a digest.")
	f.DurationVar(&o.viewSyncPeriod, "markdownview-sync-period", 10*time.Minute,
		"How often a MarkdownView is reconciled though nothing changed.")
	f.IntVar(&o.workers, "max-concurrent-reconciles", 4, "How many objects of a kind are worked on at once.")
	f.DurationVar(&o.probeTick, "probe-tick-interval", time.Second,
		"How often is looked which StorageBuckets are due for a probe.")
	f.IntVar(&o.probeWorkers, "max-concurrent-probes", 8, "How many StorageBuckets are probed at once.")
	f.Var(&o.allowCIDRs, "endpoint-allow-cidr",
		"Range of addresses that endpoints of StorageBuckets may have although they are forbidden otherwise, such as a Service range; may be repeated.")
	f.Var(&o.denyCIDRs, "endpoint-deny-cidr",
		"Range of addresses that endpoints of StorageBuckets may not have, whatever is allowed; may be repeated.")
	f.Var(&o.serviceCIDRs, "service-cidr",
		"Service range of the cluster, into which no endpoint may lead; may be repeated, and replaces what the API server lists. Without either, all private addresses are refused.")
	f.DurationVar(&o.removalGrace, "bucket-removal-grace-period", 10*time.Minute,
		"How long managed buckets that cannot be removed keep their namespace from being deleted; then they are kept.")
	f.Float64Var(&o.apiQPS, "kube-api-qps", 50, "Requests a second to the API server for each kind of object, on average.")
	f.IntVar(&o.apiBurst, "kube-api-burst", 100,
		"Requests to the API server for each kind of object that may follow each other at once.")
}

// validate reports all invalid options, not only the first.
func (o *options) validate() error {
	var errs []error
	require := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(o.electionNamespace != "",
		"the operator's own namespace is not known: set POD_NAMESPACE or --leader-election-namespace")
	require(o.electionID != "", "--leader-election-id must not be empty")
	require(o.leaseDuration >= time.Second && o.leaseDuration%time.Second == 0,
		"--leader-elect-lease-duration %s must be whole seconds, at least 1s: a Lease has no finer unit", o.leaseDuration)
	require(o.leaseDuration <= election.MaxLeaseDuration,
		"--leader-elect-lease-duration %s must not be longer than %s", o.leaseDuration, election.MaxLeaseDuration)
	require(o.retryPeriod > 0, "--leader-elect-retry-period %s must be positive", o.retryPeriod)
	// The elector waits up to 1.2 retry periods between two tries.
	require(o.renewDeadline > o.retryPeriod+o.retryPeriod/5,
		"--leader-elect-renew-deadline %s must be longer than 1.2 times --leader-elect-retry-period %s, or one try decides",
		o.renewDeadline, o.retryPeriod)
	// A leader that cannot reach the API server continues for this long.
	require(o.leaseDuration >= o.renewDeadline+o.retryPeriod,
		"--leader-elect-lease-duration %s must not be shorter than --leader-elect-renew-deadline %s plus "+
			"--leader-elect-retry-period %s, or a second leader could start before the first has stopped",
		o.leaseDuration, o.renewDeadline, o.retryPeriod)
	require(o.shutdownDelay >= 0, "--shutdown-delay-duration %s must not be negative", o.shutdownDelay)
	require(o.shutdownTimeout > 0, "--graceful-shutdown-timeout %s must be positive", o.shutdownTimeout)
	require(o.stuckAfter > 0, "--stuck-after %s must be positive", o.stuckAfter)
	require(o.syncPeriod > 0, "--tenant-sync-period %s must be positive", o.syncPeriod)
	require(o.defaultViewerImage != "", "--default-viewer-image must not be empty")
	if err := markdownview.ValidateImage(o.defaultViewerImage); o.defaultViewerImage != "" && err != nil {
		errs = append(errs, fmt.Errorf("--default-viewer-image %q: %w", o.defaultViewerImage, err))
	}
	require(o.viewSyncPeriod > 0, "--markdownview-sync-period %s must be positive", o.viewSyncPeriod)
	require(o.workers > 0, "--max-concurrent-reconciles %d must be positive", o.workers)
	require(o.probeTick > 0, "--probe-tick-interval %s must be positive", o.probeTick)
	require(o.probeWorkers > 0, "--max-concurrent-probes %d must be positive", o.probeWorkers)
	require(o.removalGrace >= 0, "--bucket-removal-grace-period %s must not be negative", o.removalGrace)
	require(o.apiQPS > 0, "--kube-api-qps %g must be positive", o.apiQPS)
	require(o.apiBurst > 0, "--kube-api-burst %d must be positive", o.apiBurst)
	require(o.adminClusterRole != "", "--tenant-admin-cluster-role must not be empty")
	switch o.podSecurityLevel {
	case "", "privileged", "baseline", "restricted":
	default:
		require(false, "--tenant-pod-security-level %q must be privileged, baseline, restricted or empty", o.podSecurityLevel)
	}
	if o.enableWebhooks {
		require(o.webhookPort > 0 && o.webhookPort < 1<<16, "--webhook-port %d must be between 1 and 65535", o.webhookPort)
		require(o.webhookCertPath != "" || (o.webhookSecret != "" && o.webhookService != ""),
			"--webhook-secret and --webhook-service must be set unless --webhook-cert-path is")
	}
	return errors.Join(errs...)
}

func (o *options) tenants() tenant.Options {
	return tenant.Options{
		AdminClusterRole:        o.adminClusterRole,
		PodSecurityLevel:        o.podSecurityLevel,
		OperatorNamespace:       o.electionNamespace,
		MaxConcurrentReconciles: o.workers,
		SyncPeriod:              o.syncPeriod,
	}
}

// adminRight is the right to bind the ClusterRole of the Tenants' admins, which config/rbac
// grants for one role by its name.
func (o *options) adminRight() access.Right {
	return access.Right{
		ResourceAttributes: authorizationv1.ResourceAttributes{
			Group: rbacv1.GroupName, Resource: "clusterroles", Verb: "bind", Name: o.adminClusterRole,
		},
		Remedy: fmt.Sprintf("add %q to the resourceNames beside bind in config/rbac/manager_role.yaml, "+
			"or change --tenant-admin-cluster-role", o.adminClusterRole),
	}
}

func (o *options) storageBuckets() storagebucket.Options {
	return storagebucket.Options{
		MaxConcurrentReconciles: o.probeWorkers,
		AllowCIDRs:              o.allowCIDRs,
		DenyCIDRs:               o.denyCIDRs,
		ServiceCIDRs:            o.serviceCIDRs,
		RemovalGrace:            o.removalGrace,
	}
}

func (o *options) markdownViews() markdownview.Options {
	return markdownview.Options{
		DefaultViewerImage:      o.defaultViewerImage,
		MaxConcurrentReconciles: o.workers,
	}
}

// leaving returns the drain of a replica that receives SIGTERM.
func (o *options) leaving() *drain.Drain { return drain.New(o.shutdownDelay, clock.RealClock{}) }

// progress returns the state of the workers that /healthz checks.
func (o *options) progress() *health.Progress {
	return health.NewProgress(o.stuckAfter, clock.RealClock{})
}

func (o *options) metrics() metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure, TLSOpts: o.tls()}
	if o.metricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if o.metricsCertPath != "" {
		m.CertDir, m.CertName, m.KeyName = o.metricsCertPath, o.metricsCertName, o.metricsCertKey
	}
	return m
}

func (o *options) webhooks(certificate *servingcert.Source) webhook.Options {
	w := webhook.Options{
		Host: o.webhookHost, Port: o.webhookPort, TLSOpts: o.tls(),
		CertDir: o.webhookCertPath, CertName: o.webhookCertName, KeyName: o.webhookCertKey,
	}
	if certificate != nil {
		w.TLSOpts = append(w.TLSOpts, func(c *tls.Config) { c.GetCertificate = certificate.GetCertificate })
	}
	return w
}

// tls turns HTTP/2 off unless a flag enables it: its stream resets have let a few
// clients exhaust servers (CVE-2023-44487, CVE-2023-39325).
func (o *options) tls() []func(*tls.Config) {
	if o.enableHTTP2 {
		return nil
	}
	return []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
}

// certificate returns nil where the webhooks are off or read their certificate from files.
func (o *options) certificate() (*servingcert.Source, error) {
	if !o.enableWebhooks || o.webhookCertPath != "" {
		return nil, nil
	}
	return servingcert.NewSource(types.NamespacedName{Namespace: o.electionNamespace, Name: o.webhookSecret})
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
			return fmt.Errorf("%q is an IPv4 range written as IPv6: write it as IPv4", part)
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}

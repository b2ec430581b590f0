// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"leasehold.dev/test/harness/internal/process"
)

const (
	// existingVariable selects the current kubeconfig's cluster, as for envtest.
	existingVariable = "USE_EXISTING_CLUSTER"
	// stopTimeout bounds the stop of etcd and of kube-apiserver, each; then they are killed.
	stopTimeout = 30 * time.Second
	loopback    = "127.0.0.1"
	// advertised is the address of the Service kubernetes. By default it is that of the default route, which a machine
	// may not have. It leads nowhere, as endpoints of Services may not be loopback addresses.
	advertised = "192.0.2.1"
)

// ControlPlane is a running control plane. Its methods may be called from
// several goroutines.
type ControlPlane struct {
	assets     string // empty when an existing cluster is used and none were found
	dir        string
	config     *rest.Config
	kubeconfig string
	auditLog   string
	collects   bool // has a kube-controller-manager

	test     *envtest.Environment
	logs     []*os.File       // of etcd and kube-apiserver; envtest does not close them
	manager  *process.Process // kube-controller-manager; nil if it is not ours or not there
	watchdog *process.Watchdog
	egress   *egress // nil for an existing cluster
	client   client.Client
	http     *http.Client // beneath client

	mu       sync.Mutex
	replicas []*Replica

	stop func() error // once
}

// ErrExistingCluster is returned by Start if USE_EXISTING_CLUSTER is true and
// Options.ExistingCluster is not set.
var ErrExistingCluster = errors.New("starting a control plane: " + existingVariable +
	" is true, and this would change the cluster of the current kubeconfig: unset it")

// startTimeout bounds the start of etcd and of kube-apiserver, each. envtest's 20 s are too short for
// a machine that is busy with tests, and a program that cannot start ends long before.
const startTimeout = time.Minute

// Start starts a control plane. With USE_EXISTING_CLUSTER=true it connects to the cluster of the
// current kubeconfig instead, if Options.ExistingCluster is set. It returns as soon as the API
// server answers, when kube-controller-manager may still be starting. It ignores ctx while etcd and
// kube-apiserver start. It returns ErrNoAssets, wrapped, if the programs are missing. The caller
// must call Stop.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	existing := os.Getenv(existingVariable) == "true"
	if existing && !o.ExistingCluster {
		return nil, ErrExistingCluster
	}
	assets, err := FindAssets()
	if err != nil && !existing {
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	dir, watchdog, err := process.GuardedDir(o.WorkDir, "controlplane-")
	if err != nil {
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	c := &ControlPlane{assets: assets, dir: dir, watchdog: watchdog}
	c.stop = sync.OnceValue(c.stopAll)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting a control plane: %w", err), c.Stop())
		}
	}()
	c.test = &envtest.Environment{
		UseExistingCluster:       &existing,
		BinaryAssetsDirectory:    assets,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
	if !existing {
		// On an existing cluster envtest would replace each definition as a whole, and remove the labels
		// and annotations of the deployment.
		c.test.CRDDirectoryPaths, c.test.CRDs = o.CRDs, definitions(o.Definitions)
		if err := c.configure(ctx, o); err != nil {
			return nil, err
		}
	}
	config, err := c.test.Start()
	if err != nil {
		return nil, c.explain(err)
	}
	if err := c.connect(config); err != nil {
		return nil, err
	}
	c.collects = existing || hasFile(assets, controllerManager)
	if !existing && c.collects {
		if err := c.startControllerManager(o.Controllers); err != nil {
			return nil, err
		}
	}
	return c, ctx.Err()
}

// definitions are copies, because envtest modifies its input.
func definitions(of []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	var copies []*apiextensionsv1.CustomResourceDefinition
	for _, d := range of {
		copies = append(copies, d.DeepCopy())
	}
	return copies
}

// configure sets envtest's paths and turns the audit log on.
func (c *ControlPlane) configure(ctx context.Context, o Options) error {
	etcd := &envtest.Etcd{DataDir: filepath.Join(c.dir, "etcd")}
	server := c.test.ControlPlane.GetAPIServer()
	server.CertDir = filepath.Join(c.dir, "certs")
	c.test.ControlPlane.Etcd = etcd
	for _, dir := range []string{etcd.DataDir, server.CertDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating a folder of the control plane: %w", err)
		}
	}
	var err error
	if etcd.Path, err = c.watchdog.Wrap(filepath.Join(c.assets, "etcd")); err != nil {
		return err
	}
	if server.Path, err = c.watchdog.Wrap(filepath.Join(c.assets, "kube-apiserver")); err != nil {
		return err
	}
	// Files, not writers: a pipe would end with this process, and its reader's
	// goroutine would have to be waited for.
	for name, out := range map[string]*io.Writer{"etcd": &etcd.Err, "kube-apiserver": &server.Err} {
		file, err := os.Create(c.log(name))
		if err != nil {
			return fmt.Errorf("creating the log of %s: %w", name, err)
		}
		*out, c.logs = file, append(c.logs, file)
	}
	policy := filepath.Join(c.dir, "audit-policy.json")
	if err := writePolicy(policy, o.AuditPolicy, o.AuditGroups); err != nil {
		return err
	}
	c.auditLog = filepath.Join(c.dir, "audit.log")
	// The only member waits this long, a second by default, before it elects itself. etcd accepts no less
	// than five heartbeats, and shorter heartbeats cost as much CPU as an idle kube-apiserver.
	etcd.Configure().Set("election-timeout", "500")
	for name, values := range o.EtcdArgs {
		etcd.Configure().Set(name, values...)
	}
	// Not localhost, which may be an address of IPv6, nor ports of other connections.
	free, err := process.FreePorts(2)
	if err != nil {
		return err
	}
	etcd.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort(loopback, strconv.Itoa(free[0]))}
	server.Address, server.Port = loopback, strconv.Itoa(free[1])
	args := server.Configure()
	args.Set("advertise-address", advertised)
	args.Set("audit-policy-file", policy)
	args.Set("audit-log-path", c.auditLog)
	// A request is answered after its line has been written.
	args.Set("audit-log-mode", "blocking")
	// Megabytes; the default of 100 would move the file away under its readers.
	args.Set("audit-log-maxsize", "10000")
	egress, err := c.startEgress(ctx)
	if err != nil {
		return err
	}
	args.Set("egress-selector-config-file", egress)
	return nil
}

// connect keeps the way to talk to the cluster as its administrator.
func (c *ControlPlane) connect(config *rest.Config) error {
	c.config = rest.CopyConfig(config)
	c.config.QPS = -1 // no limit: this API server has no other clients
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	if err := errors.Join(writeKubeconfig(c.kubeconfig, c.config), c.wrapKubectl()); err != nil {
		return err
	}
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return fmt.Errorf("creating an HTTP client: %w", err)
	}
	if c.client, err = client.New(c.config, client.Options{HTTPClient: c.http}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return nil
}

// explain adds the programs' output to envtest's error, which only reports that one did not start.
func (c *ControlPlane) explain(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; envtest needs a cache folder of the user that it can write: set XDG_CACHE_HOME", err)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if last := process.Tail(c.log(name), 10); last != "" {
			err = fmt.Errorf("%w\nthe end of the log of %s:\n%s", err, name, last)
		}
	}
	return err
}

func (c *ControlPlane) log(name string) string { return filepath.Join(c.dir, name+".log") }

// Config returns a copy of the administrator's client configuration. It does
// not limit the rate of requests.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig, which only
// the user who started the control plane may read.
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfig }

// AuditLog returns the path of the audit log, which contains one JSON object per line. The API
// server writes a line before it answers the request. The path is empty for an existing cluster.
func (c *ControlPlane) AuditLog() string { return c.auditLog }

// Dir returns the control plane's own folder. Stop removes it.
func (c *ControlPlane) Dir() string { return c.dir }

// HasControllerManager reports whether the control plane follows owner references and removes
// deleted namespaces. Control planes from setup-envtest do not.
func (c *ControlPlane) HasControllerManager() bool { return c.collects }

// Stop stops every replica and then the control plane, and removes the folder. It takes about a
// second, at most half a minute, and is idempotent. It returns an error if kube-controller-manager
// exited on its own, because tests that relied on it proved nothing.
func (c *ControlPlane) Stop() error { return c.stop() }

func (c *ControlPlane) stopAll() error {
	var errs []error
	c.mu.Lock()
	replicas := c.replicas
	c.mu.Unlock()
	for _, r := range replicas {
		r.Kill()
		errs = append(errs, r.Close())
		r.status.cancel()
	}
	if c.manager != nil {
		if !c.manager.Running() {
			errs = append(errs, fmt.Errorf("%s ended by itself (%v):\n%s", controllerManager, c.manager.State,
				process.Tail(c.manager.Log, 10)))
		}
		// It keeps nothing that an orderly stop would save.
		c.manager.Kill()
	}
	if err := c.test.Stop(); err != nil {
		errs = append(errs, fmt.Errorf("stopping etcd and kube-apiserver: %w", err))
	}
	for _, log := range c.logs {
		errs = append(errs, log.Close())
	}
	if c.egress != nil {
		errs = append(errs, c.egress.stop())
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	errs = append(errs, c.watchdog.Release())
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"leasehold.dev/test/harness/sandbox"
)

// accountFolder is where a container finds the token of its ServiceAccount.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// temporaryFolder is where programs look for files such as controller-runtime's certificates. A
// variable for another folder would move those.
const temporaryFolder = "/tmp"

// CheckIsolation returns nil if replicas can be isolated on this machine, and otherwise an error
// that says what is missing.
func CheckIsolation() error { return sandbox.Check() }

// isolate creates the replica's sandbox, and adds what a container of a Pod gets to env.
func (r *Replica) isolate(ctx context.Context, cp *ControlPlane, token string) (env []string, err error) {
	api, err := url.Parse(r.config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	if ip := net.ParseIP(api.Hostname()); api.Scheme != "https" || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("the API server is at %s, not at a loopback address with TLS", r.config.Host)
	}
	if r.options.Binary, err = filepath.Abs(r.options.Binary); err != nil {
		return nil, err
	}
	folder := filepath.Join(cp.dir, fmt.Sprintf("%s.%s.%s", r.options.Namespace, r.options.Name, r.identity.PodUID))
	volumes, mounts, err := r.files(ctx, cp, folder, token)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(folder, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		return nil, err
	}
	kept := []string{cp.dir, r.options.Binary}
	if r.options.WorkingDir != "" {
		kept = append(kept, r.options.WorkingDir)
	}
	r.sandbox, err = sandbox.New(sandbox.Options{
		Hostname: r.options.Name, Mounts: mounts, Folder: root, Keep: kept,
	})
	if err != nil {
		return nil, err
	}
	ctx, r.endUpdates = context.WithCancel(context.WithoutCancel(ctx)) // they last as long as the Pod
	r.updates.Go(func() { volumes.update(ctx) })
	if err := r.connect(api); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/", "HOSTNAME=" + r.options.Name,
		"KUBERNETES_SERVICE_HOST=" + api.Hostname(), "KUBERNETES_SERVICE_PORT=" + api.Port(),
		"KUBERNETES_SERVICE_PORT_HTTPS=" + api.Port(),
	}, nil
}

// connect makes the API server reachable inside, and the program's ports outside.
func (r *Replica) connect(api *url.URL) error {
	if err := r.sandbox.Reach(api.Host); err != nil {
		return err
	}
	inside := portsOf(r.options.container())
	for _, p := range []struct {
		inside  int
		outside *int
	}{{inside.Probe, &r.ports.Probe}, {inside.Metrics, &r.ports.Metrics}, {inside.Webhook, &r.ports.Webhook}} {
		address, err := r.sandbox.Publish(p.inside)
		if err != nil {
			return err
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		*p.outside = int(at.Port())
	}
	return nil
}

// files prepares the files of the ServiceAccount, the volumes and /etc/hosts.
func (r *Replica) files(ctx context.Context, cp *ControlPlane, folder,
	token string) (*podVolumes, []sandbox.Mount, error) {
	config := r.Config()
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, nil, fmt.Errorf("reading the certificate of the API server: %w", err)
	}
	account := filepath.Join(folder, "serviceaccount")
	if err := os.MkdirAll(account, 0o755); err != nil {
		return nil, nil, err
	}
	files := map[string]string{"token": token, "ca.crt": string(config.CAData), "namespace": r.options.Namespace}
	if err := (&contentFolder{path: account}).write(files); err != nil {
		return nil, nil, err
	}
	hosts := filepath.Join(folder, "hosts")
	// Without the DNS of a cluster, a Pod resolves its own name alone.
	if err := os.WriteFile(hosts, fmt.Appendf(nil, "127.0.0.1 localhost %s\n", r.options.Name), 0o600); err != nil {
		return nil, nil, err
	}
	temporary := filepath.Join(folder, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return nil, nil, err
	}
	mounts := []sandbox.Mount{{Source: hosts, Target: "/etc/hosts"}, {Source: temporary, Target: temporaryFolder}}
	v := &podVolumes{
		template: r.options.Template, pod: r.identity.Pod, uid: r.identity.PodUID, client: cp.client,
		authority: string(config.CAData), token: func(ctx context.Context, audience string) (string, error) {
			return cp.requestToken(ctx, r.options, r.identity.PodUID, audience)
		},
	}
	mounted, err := v.mounts(ctx, filepath.Join(folder, "volumes"))
	if err != nil {
		return nil, nil, err
	}
	if v.mountsAccount() {
		mounts = append(mounts, sandbox.Mount{Source: account, Target: accountFolder, ReadOnly: true})
	}
	mounts = slices.Concat(mounts, mounted)
	slices.SortStableFunc(mounts, func(a, b sandbox.Mount) int { return mountTurn(a) - mountTurn(b) })
	return v, mounts, nil
}

// mountTurn orders mounts. The mount of /tmp may hide the folder of the new root, so it follows
// mounts elsewhere and precedes those below it.
func mountTurn(m sandbox.Mount) int {
	switch target := filepath.Clean(m.Target); {
	case target == temporaryFolder:
		return 1
	case strings.HasPrefix(target, temporaryFolder+"/"):
		return 2
	}
	return 0
}

// Reach makes an address of this machine reachable for an isolated replica. Replicas that are not
// isolated can reach every address.
func (r *Replica) Reach(address string) error {
	if r.sandbox == nil {
		return nil
	}
	return r.sandbox.Reach(address)
}

// Unreach reverts Reach.
func (r *Replica) Unreach(address string) {
	if r.sandbox != nil {
		r.sandbox.Unreach(address)
	}
}

// Close releases the resources of an isolated replica other than its process, which must have
// exited. The replica cannot be restarted afterwards.
func (r *Replica) Close() error {
	if r.sandbox == nil {
		return nil
	}
	r.endUpdates()
	r.updates.Wait()
	return r.sandbox.Close()
}

// portsOf returns the ports of a container, with controller-runtime's for those that it does not declare.
func portsOf(c corev1.Container) ReplicaPorts {
	ports := ReplicaPorts{Probe: 8081, Webhook: 9443}
	for _, p := range c.Ports {
		switch {
		case strings.Contains(p.Name, "webhook"):
			ports.Webhook = int(p.ContainerPort)
		case strings.Contains(p.Name, "metrics"):
			ports.Metrics = int(p.ContainerPort)
		}
	}
	readiness := readinessOf(c)
	if readiness != nil {
		ports.Probe = portOf(c, readiness)
	}
	if ports.Metrics == 0 {
		ports.Metrics = 8080
		if ports.Probe == 8080 && (readiness == nil || !strings.Contains(readiness.Path, "metrics")) {
			ports.Metrics = 8081 // two listeners need two ports
		}
	}
	return ports
}

// ProbePort returns the port of the container's HTTP readiness probe, or of its liveness probe if
// there is no other. It returns zero if there is neither.
func ProbePort(c corev1.Container) int {
	probe := readinessOf(c)
	if probe == nil {
		return 0
	}
	return portOf(c, probe)
}

func portOf(c corev1.Container, probe *corev1.HTTPGetAction) int {
	for _, p := range c.Ports {
		if p.Name == probe.Port.StrVal && p.Name != "" {
			return int(p.ContainerPort)
		}
	}
	return probe.Port.IntValue()
}

// readinessOf is the HTTP probe of a container's readiness, or nil. A liveness probe shows it where
// there is no other.
func readinessOf(c corev1.Container) *corev1.HTTPGetAction {
	switch {
	case isHTTP(c.ReadinessProbe):
		return c.ReadinessProbe.HTTPGet
	case isHTTP(c.LivenessProbe):
		return c.LivenessProbe.HTTPGet
	default:
		return nil
	}
}

func isHTTP(probe *corev1.Probe) bool { return probe != nil && probe.HTTPGet != nil }

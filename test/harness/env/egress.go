// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/relay"
)

const (
	// egressTimeout bounds the header of a CONNECT request.
	egressTimeout = 10 * time.Second
	// egressFile is in the control plane's folder.
	egressFile = "egress.yaml"
	// egressConfig makes the API server reach Services through an HTTP CONNECT proxy. It reaches
	// URLs, etcd and itself directly.
	egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`
)

// serviceRoute connects to what is behind a port of a Service. The connection is nil if the Service
// selects none of the route's Pods.
type serviceRoute func(context.Context, *corev1.Service, corev1.ServicePort) (net.Conn, error)

// egress is the API server's way to Services, which have addresses that lead nowhere because
// there is no kube-proxy. The API server resolves a Service to its ClusterIP and sends the
// address to this HTTP CONNECT proxy. So webhook configurations and conversion webhooks work as
// they are, also those that an operator creates at run time.
type egress struct {
	folder   *os.File // has the socket
	server   *http.Server
	cancel   context.CancelFunc
	running  sync.WaitGroup
	services func(context.Context) ([]corev1.Service, error)
	routes   sync.Map // the serviceRoute of each *Installation
}

// startEgress listens on a socket in dir and writes the API server's configuration beside it.
func startEgress(ctx context.Context, dir string,
	services func(context.Context) ([]corev1.Service, error)) (*egress, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy to Services: %w", err)
	}
	socket := socketIn(folder)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		err = fmt.Errorf("starting the proxy to Services: %w; if %s has more than 90 characters, use a shorter path", err, dir)
		return nil, errors.Join(err, folder.Close())
	}
	if err := os.WriteFile(filepath.Join(dir, egressFile), fmt.Appendf(nil, egressConfig, socket), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the API server's way to Services: %w", err), listener.Close(),
			folder.Close())
	}
	e := &egress{folder: folder, services: services}
	// The proxy outlives the call, and so must its context.
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: egressTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	e.running.Go(func() { _ = e.server.Serve(listener) }) // ends with stop
	return e, nil
}

// socketIn returns the path of the socket in a folder. The path of a socket has 107 bytes at most, and Linux
// has a short one for each open folder, which lasts as long as this process.
func socketIn(folder *os.File) string {
	path := filepath.Join(folder.Name(), "egress")
	if len(path) > 107 && runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/%d/fd/%d/egress", os.Getpid(), folder.Fd())
	}
	return path
}

// ServeHTTP connects the API server with a Pod behind the requested address. The reason of a
// refusal is in the status line, because the API server quotes that.
func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this proxy accepts CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	// The Host header of the API server has a fixed value.
	server, err := e.dial(r.Context(), r.URL.Host)
	answer := "200 OK"
	if err != nil {
		answer = "502 " + strings.Join(strings.Fields(err.Error()), " ") // on one line
	} else {
		defer func() { _ = server.Close() }() // errors change nothing for either end
	}
	client, _, hijackErr := http.NewResponseController(w).Hijack()
	if hijackErr != nil {
		http.Error(w, hijackErr.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = client.Close() }()
	if _, writeErr := fmt.Fprintf(client, "HTTP/1.1 %s\r\n\r\n", answer); err != nil || writeErr != nil {
		return // the response is complete, or the API server has closed the connection
	}
	relay.Join(client, server)
}

// dial connects to an endpoint of the Service with this address.
func (e *egress) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of a Service: %w", err)
	}
	if net.ParseIP(host) == nil { // a Service of type ExternalName
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	services, err := e.services(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	for _, s := range services {
		if !slices.Contains(s.Spec.ClusterIPs, host) {
			continue
		}
		for _, p := range s.Spec.Ports {
			if strconv.Itoa(int(p.Port)) == port {
				return e.dialPod(ctx, &s, p)
			}
		}
	}
	return nil, fmt.Errorf("no Service has the address %s", address)
}

func (e *egress) dialPod(ctx context.Context, s *corev1.Service, p corev1.ServicePort) (net.Conn, error) {
	for _, route := range e.routes.Range {
		if server, err := route.(serviceRoute)(ctx, s, p); server != nil || err != nil {
			return server, err
		}
	}
	return nil, fmt.Errorf("routing to Service %s: it selects no Pod that runs here", client.ObjectKeyFromObject(s))
}

// stop ends the proxy. Connections end with the Pod or the API server.
func (e *egress) stop() error {
	e.cancel()
	err := e.server.Close()
	e.running.Wait()
	if err := errors.Join(err, e.folder.Close()); err != nil {
		return fmt.Errorf("stopping the proxy to Services: %w", err)
	}
	return nil
}

func (c *ControlPlane) startEgress(ctx context.Context) (config string, err error) {
	c.egress, err = startEgress(ctx, c.dir, func(ctx context.Context) ([]corev1.Service, error) {
		var list corev1.ServiceList
		err := c.client.List(ctx, &list)
		return list.Items, err
	})
	return filepath.Join(c.dir, egressFile), err
}

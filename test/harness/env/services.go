package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IsolatedService is a Service that an isolated replica reaches by its names.
type IsolatedService struct {
	// Names are what the replica resolves.
	Names []string
	// Ports connect to what is behind the Service, by the port of the Service.
	Ports map[int]func() (net.Conn, error)
}

// address is that of the n-th Service in each sandbox. All of 127.0.0.0/8 belongs to the loopback
// interface, so each Service has its ports for itself.
func (IsolatedService) address(n int) string { return fmt.Sprintf("127.1.%d.%d", n/250, n%250+1) }

// hostsFile is the content of /etc/hosts of a Pod. It stands in for the DNS of a cluster.
func hostsFile(pod string, services []IsolatedService) string {
	var text strings.Builder
	fmt.Fprintf(&text, "127.0.0.1 localhost %s\n", pod)
	for n, s := range services {
		fmt.Fprintf(&text, "%s %s\n", s.address(n), strings.Join(s.Names, " "))
	}
	return text.String()
}

func (r *Replica) reachServices() error {
	for n, s := range r.options.Isolation.Services {
		for port, dial := range s.Ports {
			if err := r.sandbox.ReachBy(fmt.Sprintf("%s:%d", s.address(n), port), dial); err != nil {
				return err
			}
		}
	}
	return nil
}

// shareServices gives each workload the Services that lead to any of them.
func (i *Installation) shareServices(ctx context.Context, objects []*unstructured.Unstructured) error {
	services, err := servicesOf(objects)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // they last as long as the Installation
	for _, w := range i.workloads() {
		own := w.ports(services)
		for _, s := range services {
			to := i.workloadOf(&s)
			if to == nil {
				continue
			}
			shared := IsolatedService{Names: namesOfService(s.Name, s.Namespace, w.shipped.Namespace),
				Ports: map[int]func() (net.Conn, error){}}
			for _, p := range s.Spec.Ports {
				if !slices.Contains(own, int(p.Port)) {
					shared.Ports[int(p.Port)] = func() (net.Conn, error) { return to.dial(ctx, &s, p) }
				}
			}
			w.services = append(w.services, shared)
		}
	}
	return nil
}

// ports are those that the Pods are known to listen on. There a Service of the same port would
// prevent a program from listening on all addresses.
func (w *workload) ports(services []corev1.Service) []int {
	isolation := isolationOf(w.shipped.Spec.Template)
	ports := []int{isolation.Ports.Probe, isolation.Ports.Metrics, isolation.Ports.Webhook}
	for _, c := range w.shipped.Spec.Template.Spec.Containers[0].Ports {
		ports = append(ports, int(c.ContainerPort))
	}
	for _, s := range services {
		for _, p := range s.Spec.Ports {
			if port, err := w.targetPort(&s, p); err == nil && w.selects(&s) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

func (w *workload) dial(ctx context.Context, s *corev1.Service, p corev1.ServicePort) (net.Conn, error) {
	f, err := w.forwarder(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if len(f.Ready()) == 0 {
		return nil, errors.New("no Pod is ready")
	}
	return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.Port()))
}

// namesOfService are those by which a Pod of a namespace resolves a Service in a cluster with the
// usual domain.
func namesOfService(name, namespace, from string) []string {
	full := name + "." + namespace
	names := []string{full, full + ".svc", full + ".svc.cluster.local"}
	if namespace == from {
		names = slices.Insert(names, 0, name)
	}
	return names
}

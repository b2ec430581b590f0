package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Forward makes a port of a Pod reachable at the returned address of this
// machine, as `kubectl port-forward` does: through the API server and the
// kubelet, whatever lies between this machine and the nodes. The result ends it.
func (c *Cluster) Forward(ctx context.Context, pod *corev1.Pod, port int) (address string, stop func(), err error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return "", nil, fmt.Errorf("forwarding port %d of Pod %s: %w", port, pod.Name, err)
	}
	url := c.clients.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ready, ctx := make(chan struct{}), context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("forwarding port %d of Pod %s: %w", port, pod.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		cancel()
		return "", nil, fmt.Errorf("forwarding port %d of Pod %s: %w", port, pod.Name, err)
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("forwarding port %d of Pod %s: %w", port, pod.Name, err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), func() { cancel(); <-ended }, nil
}

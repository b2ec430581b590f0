package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Forward makes a port of a Pod reachable at the returned address of this
// machine, as `kubectl port-forward` does: through the API server and the
// kubelet, whatever lies between this machine and the nodes. It lasts until stop,
// which returns why it ended by itself if it did.
func (c *Cluster) Forward(ctx context.Context, pod *corev1.Pod, port int) (address string, stop func() error, err error) {
	failed := func(err error) (string, func() error, error) {
		return "", nil, fmt.Errorf("forwarding port %d of Pod %s: %w", port, pod.Name, err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return failed(err)
	}
	url := c.clients.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stopped, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stopped, ready, io.Discard, io.Discard)
	if err != nil {
		return failed(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	stop = sync.OnceValue(func() error { close(stopped); return <-ended })
	select {
	case err := <-ended:
		return failed(err)
	case <-ctx.Done():
		return failed(errors.Join(ctx.Err(), stop()))
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return failed(errors.Join(err, stop()))
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

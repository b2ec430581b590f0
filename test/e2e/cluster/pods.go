// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// apiServerPort is the port of kind's API servers behind the Service.
const apiServerPort = "6443"

// Signal sends a signal to all processes of a container. The kubelet observes the effect as a
// crash. A container without a process is an error.
func (c *Cluster) Signal(ctx context.Context, pod *corev1.Pod, container string, s syscall.Signal) error {
	id, err := containerID(pod, container)
	if err != nil {
		return fmt.Errorf("sending a signal to Pod %s: %w", pod.Name, err)
	}
	// The control group of each process contains the container's ID.
	const script = `found=1
for p in $(grep -l -- "$1" /proc/[0-9]*/cgroup 2>/dev/null); do
  p=${p#/proc/}; kill -"$2" "${p%/cgroup}" && found=0
done
exit $found`
	if _, err := c.Exec(ctx, pod.Spec.NodeName, "sh", "-c", script, "sh", id, fmt.Sprint(int(s))); err != nil {
		return fmt.Errorf("sending signal %d to container %s of Pod %s: %w", s, container, pod.Name, err)
	}
	return nil
}

func containerID(pod *corev1.Pod, container string) (string, error) {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != container {
			continue
		}
		if _, id, found := strings.Cut(status.ContainerID, "://"); found {
			return id, nil
		}
	}
	return "", fmt.Errorf("container %s has not started", container)
}

// CutOff drops all packets from the Pod to the API server. Open connections stay half open, as in a
// network failure. The API server can still reach ports of the Pod. heal undoes it.
func (c *Cluster) CutOff(ctx context.Context, pod *corev1.Pod) (heal func(context.Context) error, err error) {
	if pod.Status.PodIP == "" {
		return nil, fmt.Errorf("cutting Pod %s off: it has no address", pod.Name)
	}
	heal, err = c.drop(ctx, pod.Spec.NodeName, [][]string{
		{"FORWARD", "-s", pod.Status.PodIP, "-p", "tcp", "--dport", apiServerPort, "-j", "DROP"},
		{"FORWARD", "-d", pod.Status.PodIP, "-p", "tcp", "--sport", apiServerPort, "-j", "DROP"},
	})
	if err != nil {
		return nil, fmt.Errorf("cutting Pod %s off: %w", pod.Name, err)
	}
	return heal, nil
}

// CutOffNode does the same for a worker: its kubelet, its kube-proxy and all its Pods. Containers
// continue to run; the kubelet neither reports nor receives changes.
func (c *Cluster) CutOffNode(ctx context.Context, node string) (heal func(context.Context) error, err error) {
	var rules [][]string
	for _, chain := range []string{"INPUT", "OUTPUT", "FORWARD"} {
		for _, port := range []string{"--dport", "--sport"} {
			rules = append(rules, []string{chain, "-p", "tcp", port, apiServerPort, "-j", "DROP"})
		}
	}
	if heal, err = c.drop(ctx, node, rules); err != nil {
		return nil, fmt.Errorf("cutting node %s off: %w", node, err)
	}
	return heal, nil
}

// drop adds firewall rules with their chains to a node. heal removes them.
func (c *Cluster) drop(ctx context.Context, node string,
	rules [][]string) (heal func(context.Context) error, err error) {
	change := func(ctx context.Context, action string) error {
		var errs []error
		for _, rule := range rules {
			_, err := c.Exec(ctx, node, append([]string{"iptables", "-w", action}, rule...)...)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	if err := change(ctx, "-I"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := change(ctx, "-D"); err != nil {
			return fmt.Errorf("removing firewall rules from node %s: %w", node, err)
		}
		return nil
	}, nil
}

// Statuses sends HTTP requests to a Pod from its node, as the kubelet does, at the Pod's own
// address, so they also reach a Pod that is not ready or cut off from the API server. It returns
// the status code of each path, 0 without a response.
func (c *Cluster) Statuses(ctx context.Context, pod *corev1.Pod, port int, paths ...string) (map[string]int, error) {
	if pod.Status.PodIP == "" {
		return nil, fmt.Errorf("requesting from Pod %s: it has no address", pod.Name)
	}
	// curl's exit code is that of the last request, and no response is a result.
	argv := []string{"sh", "-c", `curl --silent --max-time 2 --write-out '%{http_code}\n' "$@" || true`, "sh"}
	for _, path := range paths {
		argv = append(argv, "--output", "/dev/null", fmt.Sprintf("http://%s:%d%s", pod.Status.PodIP, port, path))
	}
	out, err := c.Exec(ctx, pod.Spec.NodeName, argv...)
	if err != nil {
		return nil, fmt.Errorf("requesting from Pod %s: %w", pod.Name, err)
	}
	codes := strings.Fields(out)
	if len(codes) != len(paths) {
		return nil, fmt.Errorf("requesting from Pod %s: %d responses to %d requests: %s", pod.Name, len(codes), len(paths), out)
	}
	statuses := map[string]int{}
	for i, path := range paths {
		if statuses[path], err = strconv.Atoi(codes[i]); err != nil {
			return nil, fmt.Errorf("reading what Pod %s answered to %s: %w", pod.Name, path, err)
		}
	}
	return statuses, nil
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	poll         = 250 * time.Millisecond
	readyTimeout = 3 * time.Minute // allows for other load on the machine
)

// awaitNodes waits until all nodes are Ready. Otherwise all Pods could be scheduled to the first.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	var waitingFor string
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		nodes, err := c.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			waitingFor = err.Error()
			return false, nil //nolint:nilerr // retried: the API server may be starting or busy
		}
		// kind returns when a worker has requested to join, before its Node object exists.
		if missing := 1 + c.options.Workers - len(nodes.Items); missing > 0 {
			waitingFor = fmt.Sprintf("%d more", missing)
			return false, nil
		}
		late := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return !NodeReady(&n) })
		if late >= 0 {
			waitingFor = nodes.Items[late].Name
		}
		return late < 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for nodes to be Ready (%s): %w", waitingFor, err)
	}
	return nil
}

// awaitDaemons waits until the DaemonSets of kube-system run on each node. A Pod that starts before
// kube-proxy cannot reach Services.
func (c *Cluster) awaitDaemons(ctx context.Context) error {
	waitingFor := "any"
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		daemons, err := c.clients.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			waitingFor = err.Error()
			return false, nil //nolint:nilerr // as above
		}
		late := slices.IndexFunc(daemons.Items, func(d appsv1.DaemonSet) bool {
			return d.Status.ObservedGeneration < d.Generation || int(d.Status.NumberReady) < 1+c.options.Workers
		})
		if late >= 0 {
			waitingFor = daemons.Items[late].Name
		}
		return late < 0 && len(daemons.Items) > 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for DaemonSets to run on all nodes (%s): %w", waitingFor, err)
	}
	return nil
}

// NodeReady reports whether the node is Ready.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// PauseNode freezes all processes of a node, as on a machine that hangs: its connections stay open,
// and no process answers.
func (c *Cluster) PauseNode(ctx context.Context, node string) error {
	if _, err := run(ctx, "docker", "pause", node); err != nil {
		return fmt.Errorf("pausing node %s: %w", node, err)
	}
	return nil
}

// ResumeNode resumes a paused node and waits until it is Ready again.
func (c *Cluster) ResumeNode(ctx context.Context, node string) error {
	if _, err := run(ctx, "docker", "unpause", node); err != nil {
		return fmt.Errorf("resuming node %s: %w", node, err)
	}
	return c.awaitNodes(ctx)
}

package e2e

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Where kubeadm has kube-controller-manager's static Pod, and where it is put
// while it is removed. Both are on one file system, so a move is atomic.
const (
	controllerManagerManifest = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
	controllerManagerAway     = "/etc/kubernetes/kube-controller-manager.yaml"
)

// stopControllerManager ends kube-controller-manager, and waits until it is gone.
func (s *suite) stopControllerManager(ctx context.Context) error {
	node, err := s.controlPlaneNode(ctx)
	if err != nil {
		return err
	}
	if _, err := s.cluster.Exec(ctx, node, "mv", controllerManagerManifest, controllerManagerAway); err != nil {
		return fmt.Errorf("taking kube-controller-manager's manifest away: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := s.controllerManagers(ctx)
		return len(pods) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for kube-controller-manager to go: %w", err)
	}
	return nil
}

// startControllerManager brings it back if it is away, and waits until it is
// Ready and leads, which takes as long as the lease of the one before.
func (s *suite) startControllerManager(ctx context.Context) error {
	node, err := s.controlPlaneNode(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	const script = `[ ! -e "$1" ] || mv "$1" "$2"`
	if _, err := s.cluster.Exec(ctx, node, "sh", "-c", script, "sh", controllerManagerAway,
		controllerManagerManifest); err != nil {
		return fmt.Errorf("putting kube-controller-manager's manifest back: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := s.controllerManagers(ctx)
		if err != nil || len(pods) != 1 || !podReady(&pods[0]) {
			return false, err
		}
		var lease coordinationv1.Lease
		err = s.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kube-controller-manager"}, &lease)
		return err == nil && lease.Spec.RenewTime.After(began), err
	})
	if err != nil {
		return fmt.Errorf("waiting for kube-controller-manager to lead: %w", err)
	}
	return nil
}

func (s *suite) controllerManagers(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := s.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{"component": "kube-controller-manager"})
	return pods.Items, err
}

// controlPlaneNode is the node with kubeadm's static Pods.
func (s *suite) controlPlaneNode(ctx context.Context) (string, error) {
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes, client.HasLabels{"node-role.kubernetes.io/control-plane"}); err != nil {
		return "", fmt.Errorf("listing nodes of the control plane: %w", err)
	}
	if len(nodes.Items) != 1 {
		return "", fmt.Errorf("there are %d nodes of the control plane, want 1", len(nodes.Items))
	}
	return nodes.Items[0].Name, nil
}

// leadsSomewhere tests on each node whether port 80 of a Service answers there:
// kube-proxy takes its time, and on each node its own.
func (s *suite) leadsSomewhere(service *corev1.Service) func(context.Context) error {
	return func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := s.client.List(ctx, &nodes); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		for _, node := range nodes.Items {
			if _, err := s.cluster.Exec(ctx, node.Name, "curl", "--silent", "--output", "/dev/null", "--max-time", "2",
				"http://"+service.Spec.ClusterIP); err != nil {
				return err
			}
		}
		return nil
	}
}

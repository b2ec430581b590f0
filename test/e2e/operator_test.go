// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// Names in config/default.
const (
	operatorNamespace = "leasehold-system"
	operatorName      = "leasehold-controller-manager"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":" + operatorName
	operatorContainer = "manager"
	leaseName         = "manager.leasehold.dev"
	probePort         = 8081

	root         = "../.."
	readyTimeout = 2 * time.Minute
	poll         = 100 * time.Millisecond
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		panic(err) // two kinds of one name, so no test can work
	}
	return scheme
}

// deploy is `make deploy` of the manifests with short times.
func (s *suite) deploy(ctx context.Context) error {
	return s.make(ctx, "deploy", "OVERLAY=config/e2e")
}

// replacePods deletes the operator's Pods on an existing cluster. The image has the same name as in the
// last run, so the Deployment has not changed, and the Pods would continue to run the old program.
func (s *suite) replacePods(ctx context.Context) error {
	err := s.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorNamespace),
		client.MatchingLabels{"control-plane": "controller-manager"})
	if err != nil {
		return fmt.Errorf("deleting the Pods of the last run: %w", err)
	}
	return nil
}

// make runs a target of the Makefile against the cluster, as a user does.
func (s *suite) make(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, "make", append(argv, "KUBECTL="+s.settings.Kubectl,
		"IMG="+s.settings.Image, "VIEWER_IMG="+s.settings.ViewerImage)...)
	cmd.Dir = root
	// The flags of the make that runs these tests do not apply.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKEFLAGS=") || strings.HasPrefix(v, "MAKELEVEL=") || strings.HasPrefix(v, "MFLAGS=")
	})
	cmd.Env = append(cmd.Env, "KUBECONFIG="+s.cluster.Kubeconfig())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running make %s: %w: %s", strings.Join(argv, " "), err, out.String())
	}
	return nil
}

// awaitOperator waits until the Deployment has been rolled out, all replicas are Ready, the Lease
// has a holder and the API server reaches the webhooks. The nodes update a Service's endpoints
// later than this process.
func (s *suite) awaitOperator(ctx context.Context) error {
	return until(ctx, "the operator", s.operatorReady)
}

// until polls a check. Its error is the check's last one.
func until(ctx context.Context, what string, check func(context.Context) error) error {
	var missing error
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		missing = check(ctx)
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, missing)
	}
	return nil
}

func (s *suite) operatorReady(ctx context.Context) error {
	var d appsv1.Deployment
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}, &d); err != nil {
		return err
	}
	if want, is := *d.Spec.Replicas, d.Status; is.ObservedGeneration < d.Generation || is.UpdatedReplicas < want ||
		is.AvailableReplicas < want || is.Replicas > want {
		return fmt.Errorf("%d of %d replicas are updated, %d available, %d there in all", is.UpdatedReplicas, want,
			is.AvailableReplicas, is.Replicas)
	}
	if _, err := s.leader(ctx); err != nil {
		return err
	}
	return s.client.Create(ctx, newTenant("e2e-dry-run", "a"), client.DryRunAll)
}

// pods returns the Deployment's Pods by name, without those being deleted.
func (s *suite) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := s.client.List(ctx, &list, client.InNamespace(operatorNamespace),
		client.MatchingLabels{"control-plane": "controller-manager"},
		client.HasLabels{appsv1.DefaultDeploymentUniqueLabelKey}); err != nil {
		return nil, fmt.Errorf("listing the operator's Pods: %w", err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// lease returns the election's Lease.
func (s *suite) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	var lease coordinationv1.Lease
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: leaseName}, &lease); err != nil {
		return nil, fmt.Errorf("reading the Lease: %w", err)
	}
	return &lease, nil
}

// holderOf returns the Pod that a Lease names; "" if the Lease has no holder.
func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // Pods' names have no underscore
	return pod
}

// leader returns the Pod that holds the Lease, or an error if there is none.
func (s *suite) leader(ctx context.Context) (*corev1.Pod, error) {
	lease, err := s.lease(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Name == holderOf(lease) {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("the Lease is held by %q, which is none of %d Pods", holderOf(lease), len(pods))
}

// standby returns the other Pod.
func (s *suite) standby(ctx context.Context) (*corev1.Pod, error) {
	leader, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Name == leader.Name })
	if len(others) != 1 {
		return nil, fmt.Errorf("there are %d Pods beside the leader, want 1", len(others))
	}
	return &others[0], nil
}

// podReady reports whether the Pod's condition Ready is True.
func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

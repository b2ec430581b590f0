// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/e2e/cluster"
)

// settle waits until the operator is as deployed, on two workers, with containers that have never
// restarted. The kubelet delays restarts of a restarted container longer each time, which would
// slow the next feature.
func (s *suite) settle(ctx context.Context) error {
	return until(ctx, "the operator to settle", func(ctx context.Context) error {
		if err := s.settled(ctx); err != nil {
			return err
		}
		return s.replaceWorn(ctx)
	})
}

// settled returns nil when all nodes are schedulable and both replicas are Ready.
func (s *suite) settled(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		if !cluster.NodeReady(&nodes.Items[i]) || nodes.Items[i].Spec.Unschedulable {
			return fmt.Errorf("node %s takes no Pods", nodes.Items[i].Name)
		}
	}
	if err := s.operatorReady(ctx); err != nil {
		return err
	}
	pods, err := s.candidates(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		if !podReady(&pods[i]) || pods[i].DeletionTimestamp != nil {
			return fmt.Errorf("the Pod %s is not Ready, or on its way out", pods[i].Name)
		}
	}
	if len(pods) != 2 {
		return fmt.Errorf("there are %d Pods", len(pods))
	}
	return nil
}

// candidates returns all Pods of the operator's namespace: one being deleted can still lead.
func (s *suite) candidates(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := s.client.List(ctx, &list, client.InNamespace(operatorNamespace)); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	return list.Items, nil
}

// replaceWorn deletes a Pod that has restarted or shares a node with the other, the standby first.
// It returns an error if there was one.
func (s *suite) replaceWorn(ctx context.Context) error {
	standby, err := s.standby(ctx)
	if err != nil {
		return err
	}
	leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	switch {
	case restarts(standby) > 0 || standby.Spec.NodeName == leader.Spec.NodeName:
		// A standby has no Lease to release.
		err = s.client.Delete(ctx, standby, client.GracePeriodSeconds(1))
	case restarts(leader) > 0:
		err = s.client.Delete(ctx, leader)
	default:
		return nil
	}
	return errors.Join(errors.New("a Pod has to be replaced"), client.IgnoreNotFound(err))
}

func restarts(p *corev1.Pod) int32 {
	var n int32
	for _, status := range p.Status.ContainerStatuses {
		n += status.RestartCount
	}
	return n
}

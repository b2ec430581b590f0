package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/env"
)

// shipped is what config/default says about how the operator runs.
type shipped struct {
	deployment appsv1.Deployment
	replicas   int
	service    types.NamespacedName // of the webhooks
}

// findShipped looks for the one Deployment and for the Service of the first webhook.
func findShipped(objs []*unstructured.Unstructured) (*shipped, error) {
	found := &shipped{}
	for _, obj := range objs {
		switch obj.GetKind() {
		case "Deployment":
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &found.deployment); err != nil {
				return nil, fmt.Errorf("decoding Deployment %s: %w", obj.GetName(), err)
			}
		case "ValidatingWebhookConfiguration":
			var configuration admissionregistrationv1.ValidatingWebhookConfiguration
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &configuration); err != nil {
				return nil, fmt.Errorf("decoding ValidatingWebhookConfiguration %s: %w", obj.GetName(), err)
			}
			for _, webhook := range configuration.Webhooks {
				if ref := webhook.ClientConfig.Service; ref != nil {
					found.service = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
				}
			}
		}
	}
	switch {
	case len(found.deployment.Spec.Template.Spec.Containers) == 0:
		return nil, errors.New("no Deployment with a container is there")
	case found.deployment.Spec.Replicas == nil || *found.deployment.Spec.Replicas < 1:
		return nil, errors.New("the Deployment does not say how many replicas it has")
	case found.service.Name == "":
		return nil, errors.New("no webhook is called through a Service")
	}
	found.replicas = int(*found.deployment.Spec.Replicas)
	return found, nil
}

// replica describes the i-th Pod of the Deployment, with the arguments it ships
// with and, after them, those that a machine shared by both replicas makes
// necessary: the last one of a flag counts.
func (s *shipped) replica(i int, o *settings) env.ReplicaOptions {
	pod := s.deployment.Spec.Template
	return env.ReplicaOptions{
		Name:           fmt.Sprintf("%s-%d", s.deployment.Name, i),
		Namespace:      s.deployment.Namespace,
		ServiceAccount: pod.Spec.ServiceAccountName,
		PodLabels:      pod.Labels,
		Binary:         o.manager,
		Args: func(ports env.ReplicaPorts) []string {
			return slices.Concat(pod.Spec.Containers[0].Args, []string{
				fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports.Probe),
				fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports.Metrics),
				"--webhook-host=127.0.0.1",
				fmt.Sprintf("--webhook-port=%d", ports.Webhook),
			}, electionArgs(o.lease))
		},
	}
}

// electionArgs keeps the proportions of the shipped durations, 15 s, 10 s and 2 s.
func electionArgs(lease time.Duration) []string {
	if lease == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("--leader-elect-lease-duration=%v", lease),
		fmt.Sprintf("--leader-elect-renew-deadline=%v", lease*10/15),
		fmt.Sprintf("--leader-elect-retry-period=%v", lease*2/15),
	}
}

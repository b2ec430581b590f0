// SPDX-License-Identifier: Apache-2.0

package env

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/internal/certmanager"
)

// defaultContainer is an annotation of Pods, whose value kubectl takes where no container is named.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// Deployments returns the Deployments of an operator, given all its objects. The first container of
// each is the operator's own. It returns an error if there is no Deployment, if one has no
// container, or if two have the same name.
func Deployments(objects []*unstructured.Unstructured) ([]appsv1.Deployment, error) {
	var found []appsv1.Deployment
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			return nil, fmt.Errorf("decoding Deployment %s: %w", o.GetName(), err)
		}
		if len(d.Spec.Template.Spec.Containers) == 0 {
			return nil, fmt.Errorf("the Deployment %s has no container", d.Name)
		}
		if findDeployment(found, d.Name) != nil {
			return nil, fmt.Errorf("there are two Deployments called %s", d.Name)
		}
		pod := &d.Spec.Template.Spec
		i := ownContainer(d.Spec.Template)
		pod.Containers[0], pod.Containers[i] = pod.Containers[i], pod.Containers[0]
		// As the API server would.
		pod.ServiceAccountName = cmp.Or(pod.ServiceAccountName, defaultAccount)
		found = append(found, d)
	}
	if len(found) == 0 {
		return nil, errors.New("there is no Deployment")
	}
	return found, nil
}

// ownContainer returns the index of the operator's own container. A proxy may stand before it, so it is the one that
// kubectl takes, or else the first with a probe, or with the name in the scaffold of kubebuilder.
func ownContainer(pod corev1.PodTemplateSpec) int {
	for _, is := range []func(corev1.Container) bool{
		func(c corev1.Container) bool { return c.Name == pod.Annotations[defaultContainer] },
		func(c corev1.Container) bool { return c.ReadinessProbe != nil || c.LivenessProbe != nil },
		func(c corev1.Container) bool { return c.Name == "manager" },
	} {
		if i := slices.IndexFunc(pod.Spec.Containers, is); i >= 0 {
			return i
		}
	}
	return 0
}

// TheDeployment returns the Deployment with this name, given all objects of an operator. If name is
// empty, there must be exactly one Deployment.
func TheDeployment(objects []*unstructured.Unstructured, name string) (appsv1.Deployment, error) {
	all, err := Deployments(objects)
	if err != nil {
		return appsv1.Deployment{}, err
	}
	if name == "" && len(all) == 1 {
		return all[0], nil
	}
	if d := findDeployment(all, name); d != nil {
		return *d, nil
	}
	if name == "" {
		return appsv1.Deployment{}, fmt.Errorf("there are %d Deployments, %s, and none of them is chosen", len(all),
			namesOf(all))
	}
	return appsv1.Deployment{}, fmt.Errorf("there is no Deployment %s; there are %s", name, namesOf(all))
}

// findDeployment returns nil if there is no Deployment of the name.
func findDeployment(all []appsv1.Deployment, name string) *appsv1.Deployment {
	i := slices.IndexFunc(all, func(d appsv1.Deployment) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func namesOf(all []appsv1.Deployment) string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

// webhookServices returns the Services through which the webhooks of objects are called, each once.
func webhookServices(objects []*unstructured.Unstructured) ([]types.NamespacedName, error) {
	var services []types.NamespacedName
	for _, o := range objects {
		configs, err := certmanager.ClientConfigs(o)
		if err != nil {
			return nil, fmt.Errorf("decoding %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		for _, config := range configs {
			// The API server reports fields of another type.
			name, _, _ := unstructured.NestedString(config, "service", "name")
			namespace, _, _ := unstructured.NestedString(config, "service", "namespace")
			service := types.NamespacedName{Namespace: namespace, Name: name}
			if name != "" && !slices.Contains(services, service) {
				services = append(services, service)
			}
		}
	}
	return services, nil
}

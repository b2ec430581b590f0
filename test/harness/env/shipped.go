package env

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TheDeployment finds the one Deployment among what an operator ships. It is an
// error if there is none or more, or if it has no container.
func TheDeployment(objects []*unstructured.Unstructured) (appsv1.Deployment, error) {
	var found []appsv1.Deployment
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			return d, fmt.Errorf("decoding Deployment %s: %w", o.GetName(), err)
		}
		found = append(found, d)
	}
	switch {
	case len(found) != 1:
		return appsv1.Deployment{}, fmt.Errorf("there are %d Deployments, want one", len(found))
	case len(found[0].Spec.Template.Spec.Containers) == 0:
		return appsv1.Deployment{}, fmt.Errorf("the Deployment %s has no container", found[0].Name)
	}
	// As the API server would.
	pod := &found[0].Spec.Template.Spec
	pod.ServiceAccountName = cmp.Or(pod.ServiceAccountName, "default")
	return found[0], nil
}

// webhookServices are the Services that webhooks are called through, each once.
func webhookServices(objects []*unstructured.Unstructured) ([]types.NamespacedName, error) {
	var services []types.NamespacedName
	for _, o := range objects {
		refs, err := serviceRefs(o)
		if err != nil {
			return nil, fmt.Errorf("decoding %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		for _, name := range refs {
			if !slices.Contains(services, name) {
				services = append(services, name)
			}
		}
	}
	return services, nil
}

// serviceRefs are the Services that an object's webhooks are called through.
func serviceRefs(o *unstructured.Unstructured) ([]types.NamespacedName, error) {
	var configs []map[string]any
	switch o.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		for _, w := range webhooks {
			fields, ok := w.(map[string]any)
			if !ok {
				return nil, errors.New("a webhook is not an object")
			}
			config, _, err := unstructured.NestedMap(fields, "clientConfig", "service")
			if err != nil {
				return nil, err
			}
			configs = append(configs, config)
		}
	case "CustomResourceDefinition":
		config, _, err := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook", "clientConfig", "service")
		if err != nil {
			return nil, err
		}
		configs = append(configs, config)
	}
	var refs []types.NamespacedName
	for _, config := range configs {
		name, _, _ := unstructured.NestedString(config, "name") // the API server reports another type
		namespace, _, _ := unstructured.NestedString(config, "namespace")
		if name != "" {
			refs = append(refs, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return refs, nil
}

package env

import (
	"cmp"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

// webhookService is the one Service that all webhooks are called through; the
// zero name if there are no webhooks.
func webhookService(objects []*unstructured.Unstructured) (types.NamespacedName, error) {
	var service types.NamespacedName
	for _, o := range objects {
		refs, err := serviceRefs(o)
		if err != nil {
			return service, fmt.Errorf("decoding %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		for _, ref := range refs {
			name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
			if service != (types.NamespacedName{}) && service != name {
				return service, errors.New("webhooks are called through more than one Service")
			}
			service = name
		}
	}
	return service, nil
}

// serviceRefs are the Services that an object's webhooks are called through.
func serviceRefs(o *unstructured.Unstructured) ([]*admissionregistrationv1.ServiceReference, error) {
	var clients []admissionregistrationv1.WebhookClientConfig
	switch o.GetKind() {
	case "ValidatingWebhookConfiguration":
		var c admissionregistrationv1.ValidatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
			return nil, err
		}
		for _, w := range c.Webhooks {
			clients = append(clients, w.ClientConfig)
		}
	case "MutatingWebhookConfiguration":
		var c admissionregistrationv1.MutatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
			return nil, err
		}
		for _, w := range c.Webhooks {
			clients = append(clients, w.ClientConfig)
		}
	}
	var refs []*admissionregistrationv1.ServiceReference
	for _, client := range clients {
		if client.Service != nil {
			refs = append(refs, client.Service)
		}
	}
	return refs, nil
}

package env

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// RouteWebhooks returns copies of objs in which webhooks that are called through
// the Service reach 127.0.0.1:port instead, where a Forwarder may listen: the
// Service becomes one of type ExternalName for localhost, which the API server
// follows, and every clientConfig that names the Service gets the port. The API
// server still expects a certificate for <service>.<namespace>.svc, so
// certificates are verified as in a cluster. It is an error when the Service is
// not among objs or when no webhook names it: nothing would be routed.
func RouteWebhooks(objs []*unstructured.Unstructured, service types.NamespacedName,
	port int) ([]*unstructured.Unstructured, error) {
	routed := make([]*unstructured.Unstructured, 0, len(objs))
	found, pointed := false, 0
	for _, obj := range objs {
		obj = obj.DeepCopy()
		routed = append(routed, obj)
		switch obj.GetKind() {
		case "Service":
			if obj.GetName() == service.Name && obj.GetNamespace() == service.Namespace {
				found = true
				if err := pointAtLocalhost(obj); err != nil {
					return nil, fmt.Errorf("routing Service %s: %w", service, err)
				}
			}
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition":
			n, err := pointAtPort(obj, service, int64(port))
			if err != nil {
				return nil, fmt.Errorf("routing %s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
			pointed += n
		}
	}
	if !found {
		return nil, fmt.Errorf("routing webhooks: Service %s is not among the objects", service)
	}
	if pointed == 0 {
		return nil, fmt.Errorf("routing webhooks: none of them is called through Service %s", service)
	}
	return routed, nil
}

func pointAtLocalhost(service *unstructured.Unstructured) error {
	for _, field := range []string{"clusterIP", "clusterIPs", "selector"} {
		unstructured.RemoveNestedField(service.Object, "spec", field)
	}
	return errors.Join(
		unstructured.SetNestedField(service.Object, "ExternalName", "spec", "type"),
		unstructured.SetNestedField(service.Object, "localhost", "spec", "externalName"),
	)
}

// pointAtPort returns how many webhooks of obj now use port.
func pointAtPort(obj *unstructured.Unstructured, service types.NamespacedName, port int64) (int, error) {
	if obj.GetKind() == "CustomResourceDefinition" {
		config, found, err := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook", "clientConfig")
		if err != nil || !found || !setPort(config, service, port) {
			return 0, err
		}
		return 1, unstructured.SetNestedMap(obj.Object, config, "spec", "conversion", "webhook", "clientConfig")
	}
	webhooks, _, err := unstructured.NestedSlice(obj.Object, "webhooks")
	if err != nil {
		return 0, err
	}
	pointed := 0
	for _, webhook := range webhooks {
		fields, ok := webhook.(map[string]any)
		if !ok {
			return 0, errors.New("a webhook is not an object")
		}
		if config, ok := fields["clientConfig"].(map[string]any); ok && setPort(config, service, port) {
			pointed++
		}
	}
	return pointed, unstructured.SetNestedSlice(obj.Object, webhooks, "webhooks")
}

func setPort(config map[string]any, service types.NamespacedName, port int64) bool {
	reference, ok := config["service"].(map[string]any)
	if !ok || reference["name"] != service.Name || reference["namespace"] != service.Namespace {
		return false
	}
	reference["port"] = port
	return true
}

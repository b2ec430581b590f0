// SPDX-License-Identifier: Apache-2.0

package env

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"leasehold.dev/test/harness/internal/certmanager"
)

// Render returns the objects of the whole installation, in an order in which they can be applied.
// It adds the namespaces that the manifests expect, and leaves out the hooks of a chart. The notes
// report the differences from an installation in a cluster.
func (s InstallOptions) Render(ctx context.Context) (objects []*unstructured.Unstructured, notes []string, err error) {
	assets, err := FindAssets()
	if err != nil && os.Getenv(existingVariable) != "true" {
		return nil, nil, fmt.Errorf("rendering %s: %w", s.Manifests, err)
	}
	if objects, err = render(ctx, assets, s.Manifests, s.Chart); err != nil {
		return nil, nil, fmt.Errorf("rendering %s: %w", s.Manifests, err)
	}
	namespace := metav1.NamespaceDefault
	if IsChart(s.Manifests) {
		namespace = cmp.Or(s.Chart.Namespace, namespace)
		objects, notes = withoutHooks(objects)
	}
	objects, aggregated := withoutAggregated(objects)
	notes = slices.Concat(notes, aggregated)
	fillNamespace(objects, namespace)
	filled, err := fillPlaceholders(objects)
	if err != nil {
		return nil, nil, fmt.Errorf("rendering %s: %w", s.Manifests, err)
	}
	notes = slices.Concat(notes, filled, s.deploymentNotes(objects))
	objects, issued, err := certmanager.Issue(objects, time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("rendering %s: %w", s.Manifests, err)
	}
	objects = append(MissingNamespaces(objects), objects...)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return turn(a) - turn(b) })
	return objects, slices.Concat(notes, issued), nil
}

// withoutHooks leaves out hooks. Most are Jobs, which need a node and their image.
func withoutHooks(objects []*unstructured.Unstructured) (rest []*unstructured.Unstructured, notes []string) {
	var hooks []string
	for _, o := range objects {
		if hook := o.GetAnnotations()[hookAnnotation]; hook != "" {
			hooks = append(hooks, fmt.Sprintf("%s %s (%s)", o.GetKind(), o.GetName(), hook))
			continue
		}
		rest = append(rest, o)
	}
	if len(hooks) > 0 {
		notes = []string{"the chart's hooks are not run: " + strings.Join(hooks, ", ")}
	}
	return rest, notes
}

// withoutAggregated leaves out the APIs that Pods serve: kube-apiserver looks for their Endpoints, which nothing
// makes, and while one API does not answer no namespace ends.
func withoutAggregated(objects []*unstructured.Unstructured) (rest []*unstructured.Unstructured, notes []string) {
	var left []string
	for _, o := range objects {
		if o.GetKind() == "APIService" {
			left = append(left, o.GetName())
			continue
		}
		rest = append(rest, o)
	}
	if len(left) > 0 {
		notes = []string{"APIs that Pods serve are not installed: " + strings.Join(left, ", ")}
	}
	return rest, notes
}

// deploymentNotes names what a replica, which is one process, has not of its Pod.
func (s InstallOptions) deploymentNotes(objects []*unstructured.Unstructured) (notes []string) {
	d, err := TheDeployment(objects, s.Deployment)
	if err != nil {
		return nil // its caller reports the error
	}
	pod := d.Spec.Template.Spec
	if others := namesOfContainers(pod.Containers[1:]); others != "" {
		notes = append(notes, fmt.Sprintf("of the containers of Deployment %s, %s runs, and not %s", d.Name,
			pod.Containers[0].Name, others))
	}
	if initial := namesOfContainers(pod.InitContainers); initial != "" {
		notes = append(notes, fmt.Sprintf("the init containers of Deployment %s do not run: %s; turn off what needs their files, "+
			"by args, env or the values of a chart", d.Name, initial))
	}
	if readinessOf(pod.Containers[0]) == nil {
		notes = append(notes, fmt.Sprintf("Deployment %s has no HTTP probe: a replica is ready when its process runs, and "+
			"truthful-readiness cannot be judged", d.Name))
	}
	return notes
}

func namesOfContainers(containers []corev1.Container) string {
	names := make([]string, len(containers))
	for i, c := range containers {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// clusterScoped are the cluster-scoped kinds by group; "" means all kinds of a group.
var clusterScoped = map[string][]string{
	"":                             {"Namespace", "Node", "PersistentVolume"},
	"admissionregistration.k8s.io": {""},
	"apiextensions.k8s.io":         {""},
	"apiregistration.k8s.io":       {""},
	certmanager.Group:              {"ClusterIssuer"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {""},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {""},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
}

// definedScopes returns the scopes of the kinds that the objects define.
func definedScopes(objects []*unstructured.Unstructured) map[schema.GroupKind]string {
	scopes := map[schema.GroupKind]string{}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			// The API server reports fields of another type.
			scopes[schema.GroupKind{Group: group, Kind: kind}], _, _ = unstructured.NestedString(o.Object, "spec", "scope")
		}
	}
	return scopes
}

// fillNamespace sets the namespace of objects that have none and need one, as kubectl and helm do.
func fillNamespace(objects []*unstructured.Unstructured, namespace string) {
	scopes := definedScopes(objects)
	for _, o := range objects {
		kind := o.GroupVersionKind().GroupKind()
		scope, defined := scopes[kind]
		kinds := clusterScoped[kind.Group]
		known := kind.Group == certmanager.Group || clientgoscheme.Scheme.IsGroupRegistered(kind.Group)
		namespaced := known && !slices.Contains(kinds, "") && !slices.Contains(kinds, kind.Kind)
		if o.GetNamespace() == "" && (scope == "Namespaced" || !defined && namespaced) {
			o.SetNamespace(namespace)
		}
	}
}

// MissingNamespaces returns a Namespace for each namespace that objects are in and that neither
// Kubernetes nor one of the objects creates.
func MissingNamespaces(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	there := []string{"", metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			there = append(there, o.GetName())
		}
	}
	var missing []*unstructured.Unstructured
	for _, o := range objects {
		if name := o.GetNamespace(); !slices.Contains(there, name) {
			there = append(there, name)
			missing = append(missing, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
			}})
		}
	}
	return missing
}

// withoutUndefined leaves out the objects of kinds that neither Kubernetes nor any definition has,
// such as a ServiceMonitor without Prometheus's operator. The note names them; "" if there are none.
func withoutUndefined(objects []*unstructured.Unstructured,
	mapper meta.RESTMapper) (rest []*unstructured.Unstructured, note string, err error) {
	scopes := definedScopes(objects)
	var left []string
	for _, o := range objects {
		kind := o.GroupVersionKind().GroupKind()
		_, builtIn := clusterScoped[kind.Group]
		_, defined := scopes[kind]
		if !builtIn && !clientgoscheme.Scheme.IsGroupRegistered(kind.Group) && !defined {
			if _, err := mapper.RESTMapping(kind); meta.IsNoMatchError(err) {
				left = append(left, fmt.Sprintf("%s %s", o.GetKind(), o.GetName()))
				continue
			} else if err != nil {
				return nil, "", fmt.Errorf("looking for the kind of %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
		rest = append(rest, o)
	}
	if len(left) > 0 {
		note = "not installed, as nothing defines their kinds: " + strings.Join(left, ", ")
	}
	return rest, note, nil
}

package env

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// withoutUndefined leaves out the objects of kinds that neither Kubernetes nor any definition has,
// such as a ServiceMonitor without Prometheus's operator. The note names them; "" if there are none.
func withoutUndefined(objects []*unstructured.Unstructured,
	mapper meta.RESTMapper) (rest []*unstructured.Unstructured, note string, err error) {
	defined := map[schema.GroupKind]bool{}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			// The API server reports fields of another type.
			defined[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	var left []string
	for _, o := range objects {
		kind := o.GroupVersionKind().GroupKind()
		_, builtIn := clusterScoped[kind.Group]
		if !builtIn && !clientgoscheme.Scheme.IsGroupRegistered(kind.Group) && !defined[kind] {
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

package compatibility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/gate/row"
)

const (
	// patience is how long the API server may take to serve a new schema.
	patience, poll = 30 * time.Second, 20 * time.Millisecond
	// marker is a column that only the definitions of head are given: a table that
	// has it was made by their schema.
	marker = "served-by-head"
)

// install applies the definitions of head as `make install` does, and returns when
// the API server serves objects by them. A row tells of one it refuses.
func install(ctx context.Context, plane *env.ControlPlane, head shipped) ([]row.Row, error) {
	for i, d := range head.kinds {
		marked := d.DeepCopy()
		for j := range marked.Spec.Versions {
			v := &marked.Spec.Versions[j]
			v.AdditionalPrinterColumns = append(v.AdditionalPrinterColumns,
				apiextensionsv1.CustomResourceColumnDefinition{Name: marker, Type: "string", JSONPath: ".metadata.name"})
		}
		obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(marked)
		if err != nil {
			return nil, fmt.Errorf("marking CustomResourceDefinition %s: %w", d.Name, err)
		}
		u := &unstructured.Unstructured{Object: obj}
		u.SetGroupVersionKind(head.definitions[i].GroupVersionKind())
		unstructured.RemoveNestedField(u.Object, "status")
		if err := plane.Apply(ctx, u); apierrors.IsInvalid(err) {
			return []row.Row{{ID: prefix + "live/" + d.Name + "/install", Base: "installed", Verdict: row.Worse,
				Reason: "`make install` is refused where base is installed: " + err.Error()}}, nil
		} else if err != nil {
			return nil, fmt.Errorf("installing the kinds of head: %w", err)
		}
	}
	clients, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		return nil, fmt.Errorf("creating a client for tables: %w", err)
	}
	for _, d := range head.kinds {
		for _, v := range d.Spec.Versions {
			if v.Served {
				if err := awaitMarker(ctx, clients, d, v.Name); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, nil
}

// awaitMarker returns when a table of the kind has head's column. The condition
// Established does not tell: it was true under base already.
func awaitMarker(ctx context.Context, c *discovery.DiscoveryClient, d apiextensionsv1.CustomResourceDefinition, version string) error {
	path := "/apis/" + d.Spec.Group + "/" + version + "/" + d.Spec.Names.Plural
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		var table metav1.Table
		raw, err := c.RESTClient().Get().AbsPath(path).Param("limit", "1").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
		if err == nil {
			err = json.Unmarshal(raw, &table)
		}
		last = err
		for _, column := range table.ColumnDefinitions {
			if column.Name == marker {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server to serve %s by head's definition: %w", path, errors.Join(err, last))
	}
	return nil
}

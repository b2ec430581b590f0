package run

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// restore writes the object back as it was before, except for metadata and status.
func (o object) restore(ctx context.Context, before *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := o.get(ctx)
		if err != nil {
			return err
		}
		wanted := now.DeepCopy()
		for _, field := range slices.Sorted(maps.Keys(now.Object)) {
			if _, there := before.Object[field]; !there {
				delete(wanted.Object, field)
			}
		}
		for field, value := range before.Object {
			if field != "metadata" && field != "status" {
				wanted.Object[field] = runtime.DeepCopyJSONValue(value)
			}
		}
		_, err = o.Update(ctx, wanted, metav1.UpdateOptions{})
		return err
	})
}

// object is an API object as an administrator accesses it.
type object struct {
	dynamic.ResourceInterface

	key history.Key
}

// objectAt returns the object of a request's path, whatever its subresource.
func (p *Prover) objectAt(path string) (object, error) {
	o, err := p.resourceAt(path)
	if err == nil && o.key.Name == "" {
		err = fmt.Errorf("reading the path %s: it names no object", path)
	}
	return o, err
}

// resourceAt returns the object or, without a name, the collection of a request's path.
func (p *Prover) resourceAt(path string) (object, error) {
	asked, err := http.NewRequest(http.MethodGet, path, http.NoBody)
	if err != nil {
		return object{}, fmt.Errorf("reading the path %s: %w", path, err)
	}
	info, err := requestInfoFactory.NewRequestInfo(asked)
	if err != nil {
		return object{}, fmt.Errorf("reading the path %s: %w", path, err)
	}
	key := history.Key{Resource: history.Resource{Group: info.APIGroup, Resource: info.Resource},
		Namespace: info.Namespace, Name: info.Name}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if key.Resource == (history.Resource{Resource: namespaces.Resource}) {
		key.Namespace = "" // a namespace's path has it as the namespace too
	}
	if key.Namespace == "" {
		return object{p.dynamic.Resource(gvr), key}, nil
	}
	return object{p.dynamic.Resource(gvr).Namespace(key.Namespace), key}, nil
}

func (p *Prover) objectOf(r scenario.Ref) (object, error) {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	mapping, err := p.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return object{}, fmt.Errorf("looking for the resource of %s: %w", r, err)
	}
	key := history.Key{
		Resource:  history.Resource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource},
		Namespace: r.Namespace, Name: r.Name,
	}
	if r.Namespace == "" {
		return object{p.dynamic.Resource(mapping.Resource), key}, nil
	}
	return object{p.dynamic.Resource(mapping.Resource).Namespace(r.Namespace), key}, nil
}

func (o object) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return o.Get(ctx, o.key.Name, metav1.GetOptions{})
}

// finalizers changes the object's finalizers. A missing object has none.
func (o object) finalizers(ctx context.Context, change func([]string) []string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := o.get(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		now.SetFinalizers(change(now.GetFinalizers()))
		_, err = o.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// requestInfoFactory parses the paths of requests.
var requestInfoFactory = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// requestInfoOf returns the resource of a request, or nil if it has none.
func requestInfoOf(r fault.ProxiedRequest) *apirequest.RequestInfo {
	info, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: r.Method, URL: r.URL()})
	if err != nil || !info.IsResourceRequest {
		return nil
	}
	return info
}

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// defined is the definition of a resource of example.com with these versions. The last one is stored.
func defined(resource string, versions ...string) *unstructured.Unstructured {
	var all []any
	for i, v := range versions {
		all = append(all, map[string]any{"name": v, "served": true, "storage": i == len(versions)-1})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": resource + ".example.com"}, "spec": map[string]any{"versions": all},
	}}
}

// What is stored in another version than the preferred one is watched as it is stored.
func TestWatchedResources(t *testing.T) {
	g := NewWithT(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		{Group: "example.com", Version: "v1beta1", Kind: "Thing"},
		{Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "events.k8s.io", Version: "v1", Kind: "Event"},
		{Version: "v1", Kind: "Event"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	jobs := history.Resource{Group: "batch", Resource: "jobs"}
	p := &Prover{client: fake.NewClientBuilder().WithRESTMapper(mapper).Build(),
		dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), defined("converted", "v1beta1", "v1"))}
	p.subject.Contract.Kinds = []invariant.Kind{{Resource: things, Children: []invariant.Child{{Resource: jobs}}}}
	p.subject.Contract.Watched = []history.Resource{jobs, {Resource: "events"}, {Group: "example.com", Resource: "converted"}}
	g.Expect(p.watchedResources(t.Context())).To(Equal([]schema.GroupVersionResource{
		{Group: "example.com", Version: "v1beta1", Resource: "things"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Version: "v1", Resource: "events"},
		{Group: "example.com", Version: "v1", Resource: "converted"},
	}))

	p.subject.Contract.Watched = []history.Resource{{Group: "example.com", Resource: "thingies"}}
	_, err := p.watchedResources(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("looking for the version of thingies.example.com to watch")))
}

package run

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

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
	p := &Prover{client: fake.NewClientBuilder().WithRESTMapper(mapper).Build()}
	p.subject.Contract.Kinds = []invariant.Kind{{Resource: things, Children: []invariant.Child{{Resource: jobs}}}}
	p.subject.Contract.Watched = []history.Resource{jobs, {Resource: "events"}}
	g.Expect(p.watchedResources()).To(Equal([]schema.GroupVersionResource{
		{Group: "example.com", Version: "v1beta1", Resource: "things"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Version: "v1", Resource: "events"},
	}))

	p.subject.Contract.Watched = []history.Resource{{Group: "example.com", Resource: "thingies"}}
	_, err := p.watchedResources()
	g.Expect(err).To(MatchError(ContainSubstring("looking for the version of thingies.example.com to watch")))
}

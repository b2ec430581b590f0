package env

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A monitor of a Prometheus that is not there is no reason not to run an operator. A kind of
// Kubernetes is left to the API server, whose error names it.
func TestWithoutUndefined(t *testing.T) {
	g := NewWithT(t)
	objects, err := decode([]byte(strings.Join([]string{
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com, names: {kind: Thing}}}",
		"{apiVersion: v1, kind: Service, metadata: {name: metrics}}",
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.com}}",
		"{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: manager}}",
		"{apiVersion: example.com/v1, kind: Thing, metadata: {name: shipped}}",
		"{apiVersion: other.example.com/v1, kind: Other, metadata: {name: served}}",
	}, "\n---\n")))
	g.Expect(err).NotTo(HaveOccurred())
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "other.example.com", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "other.example.com", Version: "v1", Kind: "Other"}, meta.RESTScopeNamespace)
	rest, note, err := withoutUndefined(objects, mapper)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(note).To(Equal("not installed, as nothing defines their kinds: ServiceMonitor manager"))
	var kinds []string
	for _, o := range rest {
		kinds = append(kinds, o.GetKind())
	}
	g.Expect(kinds).To(Equal([]string{"CustomResourceDefinition", "Service", "APIService", "Thing", "Other"}))
}

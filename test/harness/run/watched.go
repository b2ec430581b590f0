package run

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/test/harness/history"
)

// watched are the resources of the promises, and those that the subject names
// besides, each once and at the version that the API server prefers.
func (p *Prover) watched() ([]schema.GroupVersionResource, error) {
	var all []schema.GroupVersionResource
	var known []history.Resource
	for _, r := range slices.Concat(p.subject.Promises.Resources(), p.subject.Watched) {
		if slices.Contains(known, r) {
			continue
		}
		known = append(known, r)
		if r.Group == "" {
			// To the mapper no group is any group, and this one has one version.
			all = append(all, schema.GroupVersionResource{Version: "v1", Resource: r.Resource})
			continue
		}
		versioned, err := p.client.RESTMapper().ResourceFor(schema.GroupVersionResource{Group: r.Group, Resource: r.Resource})
		if err != nil {
			return nil, fmt.Errorf("looking for the version of %s to watch: %w", r, err)
		}
		all = append(all, versioned)
	}
	return all, nil
}

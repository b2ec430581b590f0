package run

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/test/harness/history"
)

// watchedResources returns the resources of the promises, each once and in the
// API server's preferred version.
func (p *Prover) watchedResources() ([]schema.GroupVersionResource, error) {
	var all []schema.GroupVersionResource
	var known []history.Resource
	for _, r := range slices.Concat(p.subject.Contract.Resources(), p.subject.Contract.Watched) {
		if slices.Contains(known, r) {
			continue
		}
		known = append(known, r)
		if r.Group == "" {
			// The mapper takes an empty group for any group. The core group has one version.
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

// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/test/harness/history"
)

// watchedResources returns the resources of the promises, each once and with the version to watch.
func (p *Prover) watchedResources(ctx context.Context) ([]schema.GroupVersionResource, error) {
	var all []schema.GroupVersionResource
	var known []history.Resource
	for _, r := range slices.Concat(p.subject.Contract.Resources(), p.subject.Contract.Watched) {
		if slices.Contains(known, r) {
			continue
		}
		known = append(known, r)
		versioned, err := p.watchedVersion(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("looking for the version of %s to watch: %w", r, err)
		}
		all = append(all, versioned)
	}
	return all, nil
}

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// watchedVersion is the version in which objects are stored, which the API server reads without the operator, or else
// the preferred one. Where the operator converts what is watched, a watch ends with each of its processes.
func (p *Prover) watchedVersion(ctx context.Context, r history.Resource) (schema.GroupVersionResource, error) {
	version := schema.GroupVersionResource{Group: r.Group, Resource: r.Resource}
	if r.Group == "" { // The mapper takes an empty group for any group. The core group has one version.
		return version.GroupResource().WithVersion("v1"), nil
	}
	stored, err := p.dynamic.Resource(definitions).Get(ctx, version.GroupResource().String(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return version, err
	}
	if err == nil {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &definition); err != nil {
			return version, err
		}
		for _, v := range definition.Spec.Versions {
			if v.Storage && v.Served {
				return version.GroupResource().WithVersion(v.Name), nil
			}
		}
	}
	return p.client.RESTMapper().ResourceFor(version)
}

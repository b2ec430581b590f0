// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The scope of a kind decides which users can create its objects. The status is a subresource, so a
// user who may write the spec cannot write it.
func TestKinds(t *testing.T) {
	objects := render(t, "default")
	for name, want := range map[string]string{
		"tenants.leasehold.dev":        "Tenant v1beta1 Cluster, with a status",
		"storagebuckets.leasehold.dev": "StorageBucket v1beta1 Namespaced, with a status",
		"markdownviews.leasehold.dev":  "MarkdownView v1beta1 Namespaced, with a status",
	} {
		crd := one[*apiextensionsv1.CustomResourceDefinition](t, objects, name)
		if got := fmt.Sprint(crd.Spec.Names.Categories); got != "[leasehold]" {
			t.Errorf("%s is in the categories %s: `kubectl get leasehold` does not list it", name, got)
		}
		version := crd.Spec.Versions[0]
		got := fmt.Sprintf("%s %s %s", crd.Spec.Names.Kind, version.Name, crd.Spec.Scope)
		if version.Subresources != nil && version.Subresources.Status != nil {
			got += ", with a status"
		}
		if got != want || len(crd.Spec.Versions) != 1 {
			t.Errorf("%s is %q with %d versions, want %q with one", name, got, len(crd.Spec.Versions), want)
		}
	}
}

// The kubelet probes both endpoints, each on the port of the flags.
func TestManagerIsProbed(t *testing.T) {
	type probe struct {
		Path, Port                      string
		First, Every, Timeout, Failures int32
	}
	of := func(p *corev1.Probe) probe {
		if p == nil || p.HTTPGet == nil {
			return probe{}
		}
		return probe{p.HTTPGet.Path, p.HTTPGet.Port.String(), p.InitialDelaySeconds, p.PeriodSeconds, p.TimeoutSeconds,
			p.FailureThreshold}
	}
	container := manager(t, deployment(t, "default"))
	// 0 is the default: 1 s, and 3 failures. One slow answer must not restart the leader.
	want := []probe{{"/healthz", "probes", 15, 20, 0, 0}, {"/readyz", "probes", 5, 10, 0, 0}}
	if diff := gocmp.Diff(want, []probe{of(container.LivenessProbe), of(container.ReadinessProbe)}); diff != "" {
		t.Errorf("liveness and readiness (-want +got):\n%s", diff)
	}
	for _, port := range container.Ports {
		if port.Name == "probes" && port.ContainerPort == 8081 {
			return
		}
	}
	t.Errorf("no port probes with number 8081: %v", container.Ports)
}

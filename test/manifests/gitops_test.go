// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// A chart of a platform has this one as a dependency with a condition, and sets global values.
func TestChartAsADependency(t *testing.T) {
	openChart(t)
	platform := t.TempDir()
	charts := filepath.Join(platform, "charts")
	source, err := filepath.Abs(filepath.Join(root, "config", "chart"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(charts, 0o700), os.Symlink(source, filepath.Join(charts, "leasehold")),
		os.WriteFile(filepath.Join(platform, "Chart.yaml"), []byte("apiVersion: v2\nname: platform\nversion: 0.1.0\n"+
			"dependencies:\n- {name: leasehold, version: 0.0.0, condition: leasehold.enabled}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	all := strings.Count(string(release(t, operatorNamespace)), "\nkind: ")
	for enabled, objects := range map[bool]int{true: all, false: 0} {
		out, err := openChart(t).TemplateOf(t.Context(), platform, operatorNamespace,
			fmt.Sprintf("--set=leasehold.enabled=%t,global.imageRegistry=registry.example.com", enabled))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(out), "\nkind: "); got != objects || enabled && objects == 0 {
			t.Errorf("enabled %t: %d objects, want %d", enabled, got, objects)
		}
	}
}

// On the host's network the manager listens on the ports of the values, and so do the probes, the
// Services and the network policy.
func TestChartOnTheHostNetwork(t *testing.T) {
	objects := decode(t, release(t, operatorNamespace, "--values",
		filepath.Join("testdata", "chart", "host-network.yaml")))
	d := one[*appsv1.Deployment](t, objects, "leasehold-controller-manager")
	pod := d.Spec.Template.Spec
	if !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("hostNetwork %t with the DNS policy %s", pod.HostNetwork, pod.DNSPolicy)
	}
	// There may be no other node with free ports.
	if how := d.Spec.Strategy.RollingUpdate; how.MaxSurge.IntValue() != 0 || how.MaxUnavailable.IntValue() != 1 {
		t.Errorf("an upgrade needs %s more Pods and may stop %s", how.MaxSurge, how.MaxUnavailable)
	}
	for _, want := range []string{"--webhook-bind-address=:10250", "--metrics-bind-address=:10251",
		"--health-probe-bind-address=:10252"} {
		if !slices.Contains(pod.Containers[0].Args, want) {
			t.Errorf("the arguments %q lack %s", pod.Containers[0].Args, want)
		}
	}
	ports := map[string]int32{}
	for _, port := range pod.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	if diff := gocmp.Diff(map[string]int32{"webhook": 10250, "metrics": 10251, "probes": 10252}, ports); diff != "" {
		t.Errorf("ports by the names that Services and probes use (-want +got):\n%s", diff)
	}
	policy := one[*networkingv1.NetworkPolicy](t, objects, "leasehold-controller-manager")
	for i, want := range []int{10250, 10251} {
		if got := policy.Spec.Ingress[i].Ports[0].Port.IntValue(); got != want {
			t.Errorf("the network policy opens %d, want %d", got, want)
		}
	}
}

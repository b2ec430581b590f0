// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func objects(t *testing.T, texts ...string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, text := range texts {
		out = append(out, &unstructured.Unstructured{Object: fromYAML[map[string]any](t, text)})
	}
	return out
}

const (
	deployment = `{kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, args: [--x]}]}}}}`
	second     = `{kind: Deployment, metadata: {name: second}, spec: {template: {spec: {containers: [{name: c}]}}}}`
	hollow     = `{kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: []}}}}`
	validating = `{kind: ValidatingWebhookConfiguration, metadata: {name: v}, webhooks: [{clientConfig: {service: {namespace: ns, name: s}}}]}`
	mutating   = `{kind: MutatingWebhookConfiguration, metadata: {name: m}, webhooks: [{clientConfig: {service: {namespace: ns, name: s}}}]}`
	elsewhere  = `{kind: MutatingWebhookConfiguration, metadata: {name: m}, webhooks: [{clientConfig: {service: {namespace: ns, name: other}}}]}`
	converting = `{kind: CustomResourceDefinition, metadata: {name: c}, spec: {conversion: {webhook: {clientConfig: {service: {namespace: ns, name: s}}}}}}`
	byURL      = `{kind: MutatingWebhookConfiguration, metadata: {name: m}, webhooks: [{clientConfig: {url: "https://localhost"}}]}`
)

// beside is the Deployment with another container before its program's, which has these fields besides.
func beside(name, fields string) string {
	return `{kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: proxy}, {name: ` + name +
		`, args: [--x]` + fields + `}]}}}}`
}

// proxied is the Deployment with another container before its program's, which the annotation should name.
func proxied(named string) string {
	return `{kind: Deployment, metadata: {name: d}, spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/default-container: ` +
		named + `}}, spec: {containers: [{name: proxy, args: [--proxy]}, {name: c, args: [--x]}]}}}}`
}

func TestTheDeployment(t *testing.T) {
	for reason, tc := range map[string]struct {
		objects []string
		name    string
		err     string
	}{
		"one":             {[]string{validating, deployment}, "", ""},
		"one by its name": {[]string{deployment}, "d", ""},
		"one of two":      {[]string{second, deployment}, "d", ""},
		"behind a proxy":  {[]string{proxied("c")}, "", ""},
		"with a probe":    {[]string{beside("c", ", livenessProbe: {httpGet: {port: 1}}")}, "", ""},
		"as scaffolded":   {[]string{beside("manager", "")}, "", ""},
		"another name":    {[]string{deployment, second}, "x", "no Deployment x; there are d, second"},
		"none":            {[]string{validating}, "", "there is no Deployment"},
		"two":             {[]string{deployment, second}, "", "2 Deployments, d, second, and none of them is chosen"},
		"the same twice":  {[]string{deployment, deployment}, "d", "two Deployments called d"},
		"nothing to run":  {[]string{hollow}, "", "no container"},
		"not to be read ": {[]string{`{kind: Deployment, metadata: {name: d}, spec: 7}`}, "", "decoding Deployment d"},
	} {
		d, err := TheDeployment(objects(t, tc.objects...), tc.name)
		if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", reason, err, tc.err)
		}
		if err == nil && (d.Name != "d" || d.Spec.Template.Spec.Containers[0].Args[0] != "--x" ||
			d.Spec.Template.Spec.ServiceAccountName != "default") {
			t.Errorf("%s: got %+v", reason, d)
		}
	}
	d, err := TheDeployment(objects(t, proxied("none")), "")
	if err != nil || d.Spec.Template.Spec.Containers[0].Name != "proxy" {
		t.Errorf("named by nothing: got %+v, %v", d, err)
	}
}

func TestReplicasRunAsShipped(t *testing.T) {
	g := NewWithT(t)
	i := &Installation{cp: &ControlPlane{}, program: InstallOptions{
		Binary: "bin/manager", WorkingDir: "/work", Env: []string{"A=b"},
	}}
	i.shipped.Name, i.shipped.Namespace = "manager", "system"
	i.shipped.Spec.Template.Labels = map[string]string{"app": "x"}
	i.shipped.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: "account", Containers: []corev1.Container{{
		Name: "operator",
		Args: []string{"--leader-elect", "--port=1"},
		Env:  []corev1.EnvVar{{Name: "MODE", Value: "strict"}},
	}}}
	ports := ReplicaPorts{Webhook: 3}

	got := i.options(1)
	g.Expect(got.Args(ports)).To(Equal([]string{"--leader-elect", "--port=1"}), "as shipped")
	i.program.Args = func(p ReplicaPorts) []string { return []string{fmt.Sprintf("--port=%d", p.Webhook)} }
	g.Expect(got.Args(ports)).To(Equal([]string{"--leader-elect", "--port=1", "--port=3"}), "our arguments come last")
	g.Expect(got.variables().values(t.Context(), nil, types.NamespacedName{}, "42")).
		To(Equal([]string{"MODE=strict", "A=b"}))
	got.Args = nil
	g.Expect(got).To(BeComparableTo(ReplicaOptions{
		Name: "manager-1", Namespace: "system", Template: i.shipped.Spec.Template,
		Binary: "bin/manager", WorkingDir: "/work", Env: []string{"A=b"},
	}))
}

func TestWebhookServices(t *testing.T) {
	s, other := types.NamespacedName{Namespace: "ns", Name: "s"}, types.NamespacedName{Namespace: "ns", Name: "other"}
	for reason, tc := range map[string]struct {
		objects []string
		want    []types.NamespacedName
		err     string
	}{
		"no webhooks":          {[]string{deployment}, nil, ""},
		"by URL":               {[]string{byURL}, nil, ""},
		"one for all":          {[]string{mutating, validating}, []types.NamespacedName{s}, ""},
		"one for each of them": {[]string{elsewhere, validating}, []types.NamespacedName{other, s}, ""},
		"conversion":           {[]string{converting}, []types.NamespacedName{s}, ""},
		"not to be read": {[]string{`{kind: MutatingWebhookConfiguration, metadata: {name: m}, webhooks: [7]}`}, nil,
			"decoding MutatingWebhookConfiguration m"},
	} {
		got, err := webhookServices(objects(t, tc.objects...))
		if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", reason, err, tc.err)
		}
		if !slices.Equal(tc.want, got) {
			t.Errorf("%s: got %v, want %v", reason, got, tc.want)
		}
	}
}

func TestDeploymentNotes(t *testing.T) {
	all := objects(t, `{kind: Deployment, metadata: {name: trust}, spec: {template: {spec: {
		containers: [{name: proxy}, {name: manager, livenessProbe: {httpGet: {port: 1}}}, {name: agent}],
		initContainers: [{name: packages}, {name: migrate}]}}}}`,
		deployment)
	g := NewWithT(t)
	g.Expect(InstallOptions{Deployment: "trust"}.deploymentNotes(all)).To(Equal([]string{
		"of the containers of Deployment trust, manager runs, and not proxy, agent",
		"the init containers of Deployment trust do not run: packages, migrate; turn off what needs their files, " +
			"by args, env or the values of a chart",
	}))
	g.Expect(InstallOptions{Deployment: "d"}.deploymentNotes(all)).To(Equal([]string{
		"Deployment d has no HTTP probe: a replica is ready when its process runs, and truthful-readiness cannot be judged"}))
}

// An API without an answer would keep each namespace from ending.
func TestWithoutAggregated(t *testing.T) {
	g := NewWithT(t)
	keep := objects(t, deployment, validating)
	api := objects(t, "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.com}}")
	rest, notes := withoutAggregated(append(api, keep...))
	g.Expect(rest).To(Equal(keep))
	g.Expect(notes).To(ConsistOf("APIs that Pods serve are not installed: v1.example.com"))
	rest, notes = withoutAggregated(keep)
	g.Expect(rest).To(Equal(keep))
	g.Expect(notes).To(BeEmpty())
}

// An operator can run without the kinds of a missing Prometheus operator. The API server's error
// names a missing kind of Kubernetes.
func TestWithoutUndefined(t *testing.T) {
	g := NewWithT(t)
	shipped := objects(t,
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com, names: {kind: Thing}}}",
		"{apiVersion: v1, kind: Service, metadata: {name: metrics}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: manager}}",
		"{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: manager}}",
		"{apiVersion: example.com/v1, kind: Thing, metadata: {name: shipped}}",
		"{apiVersion: other.example.com/v1, kind: Other, metadata: {name: served}}")
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "other.example.com", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "other.example.com", Version: "v1", Kind: "Other"}, meta.RESTScopeNamespace)
	rest, note, err := withoutUndefined(shipped, mapper)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(note).To(Equal("not installed, as nothing defines their kinds: ServiceMonitor manager"))
	var kinds []string
	for _, o := range rest {
		kinds = append(kinds, o.GetKind())
	}
	g.Expect(kinds).To(Equal([]string{"CustomResourceDefinition", "Service", "ClusterRole", "Thing", "Other"}))
}

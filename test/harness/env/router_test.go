// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// routed is an Installation whose one container has a port called webhook, without replicas.
func routed(t *testing.T, ns string) *Installation {
	t.Helper()
	i := &Installation{cp: shared}
	d := &i.shipped
	d.Name, d.Namespace = "manager", ns
	d.Spec.Template.Labels = map[string]string{"app": "x", "more": "y"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "webhook"}}}}
	t.Cleanup(func() { NewWithT(t).Expect(i.Stop(context.WithoutCancel(t.Context()))).To(Succeed()) })
	return i
}

// apply applies objects and deletes the cluster-scoped configurations at the end.
func apply(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	NewWithT(t).Expect(shared.Apply(t.Context(), objects...)).To(Succeed())
	t.Cleanup(func() {
		for _, o := range objects {
			if o.GetNamespace() == "" {
				NewWithT(t).Expect(shared.client.Delete(context.WithoutCancel(t.Context()), o.DeepCopy())).To(Succeed())
			}
		}
	})
}

// creating returns the error of creating a ConfigMap, which the webhooks of these tests refuse.
func creating(t *testing.T, ns string) func() error {
	t.Helper()
	return func() error { return shared.client.Create(t.Context(), configMap(ns, unique("any"))) }
}

func TestShippedWebhooksAreCalledThroughTheirServices(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ host, want string }{
		"certificate for the Service": {"", "refused by the test"},
		"certificate for its address": {"127.0.0.1", "failed to verify certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			key := types.NamespacedName{Namespace: ns, Name: "webhooks"}
			if tc.host == "" {
				tc.host = key.Name + "." + ns + ".svc"
			}
			ca, backend := startRefusing(t, tc.host)
			i := routed(t, ns)
			shipped := []*unstructured.Unstructured{object(t, service(key)), refusing(t, key, unique("refusing"), ca)}
			g.Expect(i.routeWebhooks(shipped)).To(Succeed())
			g.Expect(i.HasWebhooks()).To(BeTrue())
			i.router.add(backend)
			apply(t, shipped...)
			g.Eventually(creating(t, ns), eventually).Should(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestWebhooksOfTheRunningOperatorAreCalledThroughTheirServices(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := namespace(t)
	first, second := types.NamespacedName{Namespace: ns, Name: "first"},
		types.NamespacedName{Namespace: ns, Name: "second"}
	i := routed(t, ns)
	named := service(second)
	named.Spec.Ports[0].TargetPort = intstr.FromString("webhook")
	shipped := []*unstructured.Unstructured{object(t, service(first)), object(t, named)}
	g.Expect(i.routeWebhooks(shipped)).To(Succeed())
	g.Expect(i.HasWebhooks()).To(BeFalse(), "none is shipped")
	apply(t, shipped...)

	ca, backend := startRefusing(t, first.Name+"."+ns+".svc", second.Name+"."+ns+".svc")
	i.router.add(backend)
	for _, key := range []types.NamespacedName{first, second} {
		late := refusing(t, key, unique("late"), ca)
		g.Expect(shared.client.Create(t.Context(), late)).To(Succeed())
		g.Eventually(creating(t, ns), eventually).Should(MatchError(ContainSubstring("refused by the test")), key.Name)
		g.Expect(shared.client.Delete(t.Context(), late)).To(Succeed())
	}
}

const converted = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Thing, plural: things}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1],
    clientConfig: {service: {namespace: NS, name: webhooks}}}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

func TestConversionWebhooksAreCalledThroughTheirServices(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := namespace(t)
	ca, backend := startRefusing(t, "webhooks."+ns+".svc")
	definition := objects(t, strings.NewReplacer("GROUP", ns+".example.org", "NS", ns).Replace(converted))[0]
	g.Expect(unstructured.SetNestedField(definition.Object, base64.StdEncoding.EncodeToString(ca),
		"spec", "conversion", "webhook", "clientConfig", "caBundle")).To(Succeed())
	i := routed(t, ns)
	shipped := []*unstructured.Unstructured{
		object(t, service(types.NamespacedName{Namespace: ns, Name: "webhooks"})), definition,
	}
	g.Expect(i.routeWebhooks(shipped)).To(Succeed())
	g.Expect(i.HasWebhooks()).To(BeTrue())
	i.router.add(backend)
	apply(t, shipped...)
	thing := &unstructured.Unstructured{}
	thing.SetAPIVersion(ns + ".example.org/v2")
	thing.SetKind("Thing")
	thing.SetNamespace(ns)
	thing.SetName("one")
	g.Eventually(func() error { return shared.client.Create(t.Context(), thing.DeepCopy()) }, eventually).
		Should(MatchError(ContainSubstring("refused by the test")))
}

func TestServicesThatLeadNowhereAreNamed(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	i := routed(t, ns)
	NewWithT(t).Expect(i.routeWebhooks(nil)).To(Succeed())
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		want   string
	}{
		"of another Deployment": {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} },
			"selects no Pod that runs here"},
		"without a selector": {func(s *corev1.Service) { s.Spec.Selector = nil }, "selects no Pod that runs here"},
		"to no port": {func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("typo") },
			`container c has no port of this name`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			key := types.NamespacedName{Namespace: ns, Name: unique("service")}
			s := service(key)
			tc.change(s)
			apply(t, object(t, s), refusing(t, key, unique("nowhere"), nil))
			g.Eventually(creating(t, ns), eventually).Should(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// The webhooks of a Deployment that does not run are left out; what else leads nowhere stays, and is an error.
func TestWithoutOthers(t *testing.T) {
	g := NewWithT(t)
	i := routed(t, "system")
	own, others := types.NamespacedName{Namespace: "system", Name: "webhooks"}, types.NamespacedName{Namespace: "system", Name: "others"}
	ofOther := service(others)
	ofOther.Spec.Selector = map[string]string{"app": "other"}
	i.shipped.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	other := i.Shipped()
	other.Name, other.Spec.Template.Labels = "other", ofOther.Spec.Selector
	keep := []*unstructured.Unstructured{refusing(t, own, "own", nil), object(t, service(own)), object(t, ofOther),
		refusing(t, types.NamespacedName{Namespace: "system", Name: "none"}, "nowhere", nil)}
	foreign := refusing(t, others, "foreign", nil)
	definition := func(versions string) *unstructured.Unstructured {
		return objects(t, `{kind: CustomResourceDefinition, metadata: {name: things.example.org}, spec: {versions: `+versions+`,
			conversion: {webhook: {clientConfig: {service: {namespace: system, name: others}}}}}}`)[0]
	}
	deployments := []*unstructured.Unstructured{object(t, i.Shipped()), object(t, other)}
	rest, note, err := i.withoutOthers(slices.Concat(deployments, []*unstructured.Unstructured{foreign}, keep))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rest).To(Equal(keep))
	g.Expect(note).To(Equal("not installed, as their Deployment does not run: ValidatingWebhookConfiguration " + foreign.GetName()))
	rest, note, err = i.withoutOthers(append(deployments, object(t, ofOther), definition("[v1]"), definition("[v1, v2]")))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(note).To(Equal("not installed, as their Deployment does not run: the conversion of things.example.org"))
	g.Expect(rest).To(HaveExactElements(object(t, ofOther), Not(Equal(definition("[v1]"))), Equal(definition("[v1, v2]"))))
	g.Expect(rest[1].Object["spec"]).NotTo(HaveKey("conversion"))
	rest, note, err = i.withoutOthers(slices.Concat(deployments[:1], []*unstructured.Unstructured{foreign}, keep))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rest).To(HaveLen(len(keep)+1), "no Deployment of the manifests serves it")
	g.Expect(note).To(BeEmpty())
}

func TestShippedWebhooksNeedTheirServices(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "system", Name: "webhooks"}
	other := service(key)
	other.Spec.Selector = map[string]string{"app": "other"}
	configuration := refusing(t, key, "any", nil)
	for want, objects := range map[string][]*unstructured.Unstructured{
		"Service system/webhooks, which the manifests do not have; add it": {configuration},
		"does not select the Pods of Deployment manager, and no other Deployment runs: the selector is map[app:other]": {
			configuration, object(t, other)},
	} {
		NewWithT(t).Expect(routed(t, "system").routeWebhooks(objects)).To(MatchError(ContainSubstring(want)))
	}
}

// SPDX-License-Identifier: Apache-2.0

package continuity_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

const (
	nextVersion = "v1beta2"
	// note is a field of the next version only, and shared a field of both.
	note, shared = "note", "shared"
)

// sample is an object stored in v1beta1.
type sample struct {
	resource, kind string
	object         client.Object
}

// samples returns objects of all kinds. Those in a namespace need neither Pods nor a server.
func samples() []sample {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "sample"}
	return []sample{
		{"tenants", "Tenant", newTenant("sample")},
		{"storagebuckets", "StorageBucket", &v1beta1.StorageBucket{ObjectMeta: meta, Spec: v1beta1.StorageBucketSpec{
			BucketName: "sample", Endpoint: "http://127.0.0.1:1", CredentialsSecretRef: v1beta1.SecretReference{Name: "none"}}}},
		{"markdownviews", "MarkdownView", &v1beta1.MarkdownView{ObjectMeta: meta, Spec: v1beta1.MarkdownViewSpec{
			Replicas: 1, Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "# Sample\n"}}}},
	}
}

var _ = Describe("A next version of the API", func() {
	It("reads, writes and migrates stored objects, while the operator uses only v1beta1", func(ctx SpecContext) {
		suite, _ := start(ctx)
		all := samples()
		for _, s := range all {
			Expect(suite.Client.Create(ctx, s.object)).To(Succeed())
			Eventually(ctx, s.read(suite.Client, "v1beta1")).WithTimeout(expect.Medium).Should(haveReported())
		}
		for _, s := range all {
			Expect(addVersion(ctx, suite.Client, s.resource)).To(ConsistOf("v1beta1", nextVersion))
		}

		By("reading, writing and reading back through both")
		for _, s := range all {
			s.roundTrips(ctx, suite.Client)
		}
		reconcilesMeanwhile(ctx, suite.Client)

		By("migrating by the documented commands")
		runDocumented(ctx, suite, "releases.md", "list of stored versions:", GinkgoT().TempDir())
		for _, s := range all {
			s.needsNoFormerVersion(ctx, suite.Client)
		}
	}, SpecTimeout(3*time.Minute))
})

// haveReported matches an object that the operator has reported on in its newest generation.
func haveReported() OmegaMatcher {
	return WithTransform(func(o *unstructured.Unstructured) bool {
		seen, _, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return err == nil && seen == o.GetGeneration()
	}, BeTrue())
}

// addVersion serves the next version beside the present one, with the same schema and two optional
// fields, and makes it the storage version. It returns status.storedVersions.
func addVersion(ctx context.Context, c client.Client, resource string) []string {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = resource + "." + v1beta1.GroupVersion.Group
	operator.Change(ctx, c, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		former := &crd.Spec.Versions[0]
		addField(former, shared)
		next := *former.DeepCopy()
		former.Storage = false
		next.Name, next.Storage = nextVersion, true
		addField(&next, note)
		crd.Spec.Versions = append(crd.Spec.Versions, next)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	})
	Eventually(ctx, expect.Fetched(c, crd)).Should(HaveField("Status.StoredVersions", ContainElement(nextVersion)))
	// The API server serves a version shortly after it has accepted it.
	Eventually(ctx, func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(v1beta1.GroupVersion.Group + "/" + nextVersion)
		list.SetKind(crd.Spec.Names.ListKind)
		return c.List(ctx, list)
	}).WithTimeout(expect.Medium).Should(Succeed())
	return crd.Status.StoredVersions
}

func addField(v *apiextensionsv1.CustomResourceDefinitionVersion, name string) {
	spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(63))}
	v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
}

// in returns the unread sample in a version.
func (s sample) in(version string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(v1beta1.GroupVersion.Group + "/" + version)
	o.SetKind(s.kind)
	o.SetNamespace(s.object.GetNamespace())
	o.SetName(s.object.GetName())
	return o
}

func (s sample) read(c client.Client, version string) func(context.Context) (*unstructured.Unstructured, error) {
	return func(ctx context.Context) (*unstructured.Unstructured, error) {
		return expect.Fetched(c, s.in(version))(ctx)
	}
}

// spec returns a field of the spec, or "" without it.
func spec(field string) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		value, _, _ := unstructured.NestedString(o.Object, "spec", field)
		return value
	}
}

// roundTrips: both versions show one object. The operator's writes through v1beta1 keep the field
// that both versions have, and drop the field that v1beta1 lacks.
func (s sample) roundTrips(ctx context.Context, c client.Client) {
	GinkgoHelper()
	before, err := s.read(c, "v1beta1")(ctx)
	Expect(err).NotTo(HaveOccurred())
	same, err := s.read(c, nextVersion)(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(same.GetUID()).To(Equal(before.GetUID()))
	Expect(same.GetResourceVersion()).To(Equal(before.GetResourceVersion()), "reading writes nothing")
	for _, part := range []string{"spec", "status"} {
		Expect(same.Object[part]).To(Equal(before.Object[part]), part)
	}

	written := s.in(nextVersion)
	operator.Change(ctx, c, written, func(o *unstructured.Unstructured) {
		for _, field := range []string{note, shared} {
			Expect(unstructured.SetNestedField(o.Object, "hello", "spec", field)).To(Succeed())
		}
	})
	Expect(written.GetGeneration()).To(BeNumerically(">", before.GetGeneration()))
	Expect(spec(note)(written)).To(Equal("hello"))
	Eventually(ctx, s.read(c, "v1beta1")).WithTimeout(expect.Medium).Should(And(
		haveReported(), WithTransform(spec(shared), Equal("hello"))))
	// A write of the status in v1beta1 drops the field that v1beta1 lacks.
	Expect(s.read(c, nextVersion)(ctx)).
		To(And(WithTransform(spec(shared), Equal("hello")), WithTransform(spec(note), BeEmpty())))

	former := s.in("v1beta1")
	operator.Change(ctx, c, former, func(o *unstructured.Unstructured) {
		Expect(unstructured.SetNestedField(o.Object, "again", "spec", shared)).To(Succeed())
	})
	Eventually(ctx, s.read(c, nextVersion)).WithTimeout(expect.Medium).Should(And(
		haveReported(), WithTransform(spec(shared), Equal("again")), WithTransform(spec(note), BeEmpty())))
}

// reconcilesMeanwhile: webhooks and the operator handle objects created through the next version.
func reconcilesMeanwhile(ctx context.Context, c client.Client) {
	GinkgoHelper()
	tenant := sample{kind: "Tenant", object: newTenant("meanwhile")}.in(nextVersion)
	Expect(unstructured.SetNestedStringSlice(tenant.Object, []string{"dev"}, "spec", "namespaces")).To(Succeed())
	Expect(unstructured.SetNestedSlice(tenant.Object, []any{map[string]any{"kind": "User", "name": "jane"}}, "spec",
		"admins")).To(Succeed())
	Expect(c.Create(ctx, tenant)).To(Succeed())
	Expect(spec("namespacePrefix")(tenant)).To(Equal("meanwhile-"), "the defaulting webhook was called")
	Eventually(ctx, expect.Fetched(c, &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "meanwhile"}})).
		WithTimeout(expect.Medium).Should(
		expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
	Expect(expect.Reading(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "meanwhile-dev"}})(ctx)).To(Succeed())

	taken := sample{kind: "Tenant", object: newTenant("taken")}.in(nextVersion)
	taken.Object["spec"] = map[string]any{"namespaces": []any{"dev"}, "namespacePrefix": "meanwhile-",
		"admins": tenant.Object["spec"].(map[string]any)["admins"]}
	Eventually(func() error { // the webhook reads a cache, which may be late
		return c.Create(ctx, taken.DeepCopy(), client.DryRunAll)
	}).WithContext(ctx).Should(MatchError(ContainSubstring("meanwhile")), "the validating webhook was called")
}

// needsNoFormerVersion: without v1beta1 in the definition the API server could not read an object
// stored in it.
func (s sample) needsNoFormerVersion(ctx context.Context, c client.Client) {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = s.resource + "." + v1beta1.GroupVersion.Group
	Expect(expect.Fetched(c, crd)(ctx)).To(HaveField("Status.StoredVersions", ConsistOf(nextVersion)))
	former := crd.Spec.Versions[0]
	remove := func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == former.Name })
	}
	operator.Change(ctx, c, crd, remove)
	Eventually(ctx, expect.Reading(c, s.in(former.Name))).WithTimeout(expect.Medium).
		Should(Satisfy(apierrors.IsNotFound))
	Expect(s.read(c, nextVersion)(ctx)).To(WithTransform(spec(shared), Equal("again")))
}

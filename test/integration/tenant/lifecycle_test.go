// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

var _ = Describe("A Tenant", func() {
	It("gets its namespaces, its admins their rights, and reports both", func(ctx SpecContext) {
		suite.NeedsControllers()
		name := unique("life")
		t := given(ctx, build(name))
		Expect(operator.Kstatus(t)).To(Equal(status.InProgressStatus), "before the operator has observed it")
		Eventually(ctx, fetched(t)).Should(expect.HaveFinalizer(v1beta1.TenantFinalizer))
		eventuallyReady(ctx, t)
		Expect(operator.Kstatus(t)).To(Equal(status.CurrentStatus))

		By("defaulting the prefix from the name")
		Expect(t.Spec.NamespacePrefix).To(Equal(name + "-"))
		Expect(t).To(expect.HaveFinalizer(v1beta1.TenantFinalizer))

		By("owning each namespace, with a pod-security level")
		for _, full := range []string{name + "-dev", name + "-prod"} {
			ns := namespaceOf(full)
			Expect(fetched(ns)(ctx)).To(And(
				expect.BeControlledBy(t),
				HaveField("Labels", MatchKeys(IgnoreExtras, Keys{
					v1beta1.LabelTenant:                  Equal(name),
					v1beta1.LabelManagedBy:               Equal("leasehold"),
					"pod-security.kubernetes.io/enforce": Equal("baseline"),
				})),
				HaveField("Annotations", HaveKeyWithValue(v1beta1.AnnotationTenantUID, string(t.UID)))))
			Expect(fetched(bindingIn(full))(ctx)).To(And(
				expect.BeControlledBy(t),
				HaveField("RoleRef", Equal(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"})),
				HaveField("Subjects", ConsistOf(rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User",
					Name: "admin-of-" + name}))))
		}

		By("listing the namespaces with their UIDs in the status")
		dev := namespaceOf(name + "-dev")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(dev), dev)).To(Succeed())
		Expect(t.Status.Namespaces).To(ConsistOf(
			Equal(v1beta1.TenantNamespace{Name: name + "-dev", UID: dev.UID, Reason: v1beta1.ReasonReconciled}),
			HaveField("Name", name+"-prod")))

		By("letting the admins see their Tenant, and no other, and not change it")
		admin := "admin-of-" + name
		Eventually(ctx, userCan(admin, "get", "tenants", "", name)).Should(BeTrue())
		Expect(userCan(admin, "get", "tenants", "", "another")(ctx)).To(BeFalse())
		for _, verb := range []string{"update", "patch", "delete", "create", "list"} {
			Expect(userCan(admin, verb, "tenants", "", name)(ctx)).To(BeFalse(), verb)
		}
		Expect(userCan(admin, "create", "deployments", name+"-dev", "")(ctx)).To(BeTrue())
		Expect(userCan(admin, "create", "deployments", "default", "")(ctx)).To(BeFalse())

		By("recording what happened, once, in namespace default")
		Eventually(ctx, eventsAbout(t)).Should(And(
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventUpdated,
				Note: "^the Tenant was updated$"}),
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceCreated,
				Note: name + "-dev"}),
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceCreated,
				Note: name + "-prod"})))
		Expect(eventsAbout(t)(ctx)).To(HaveLen(3))
	})

	It("shows what matters in columns, and its state from the start", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("show"), suffixes("dev")))
		columns, cells := suite.Table(ctx, "tenants", "", t.Name)
		Expect(columns).To(HaveExactElements("Name/0", "Prefix/0", "Namespaces/0", "Admin/0", "Ready/0", "Paused/0",
			"Reason/1", "Age/0"))
		Expect(cells[:7]).To(HaveExactElements(t.Name, t.Name+"-", `["dev"]`, "admin-of-"+t.Name, "True", nil, "Reconciled"))

		By("having a Ready condition in the first written status")
		first := build(t.Name)
		suite.FirstStatus("tenants", first)
		Expect(first.Status.Conditions).To(ContainElement(HaveField("Type", v1beta1.ConditionReady)))
		Expect(first.Status.ObservedGeneration).To(BeEquivalentTo(1))
	})

	It("takes in a name and lets go of another, deleting under Delete", func(ctx SpecContext) {
		suite.NeedsControllers()
		t := givenReady(ctx, build(unique("swap")))
		old := namespaceOf(t.Name + "-prod")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(old), old)).To(Succeed())

		change(ctx, t, suffixes("dev", "test"))
		Eventually(ctx, reading(old)).WithTimeout(expect.Long).Should(expect.BeGone())
		eventuallyReady(ctx, t)
		Expect(t.Status.Namespaces).To(ConsistOf(HaveField("Name", t.Name+"-dev"), HaveField("Name", t.Name+"-test")))
		Expect(fetched(namespaceOf(t.Name + "-test"))(ctx)).To(expect.BeControlledBy(t))
		Eventually(ctx, eventsAbout(t)).Should(
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceDeleted,
				Note: old.Name}))
	})

	It("lets go of a name under Retain and keeps the namespace, unbound and unmarked", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("keep"), retain))
		old := namespaceOf(t.Name + "-prod")
		Expect(fetched(old)(ctx)).To(HaveField("OwnerReferences", BeEmpty()),
			"Retain must give the garbage collector nothing to go by")
		uid := old.UID

		change(ctx, t, suffixes("dev"))
		Eventually(ctx, reading(bindingIn(old.Name))).WithTimeout(expect.Short).Should(expect.BeGone())
		eventuallyReady(ctx, t)
		Expect(fetched(old)(ctx)).To(And(
			HaveField("UID", uid),
			HaveField("DeletionTimestamp", BeNil()),
			HaveField("Annotations", Not(HaveKey(v1beta1.AnnotationTenantUID))),
			HaveField("Labels", Not(HaveKey(v1beta1.LabelTenant))),
			HaveField("Labels", HaveKey("pod-security.kubernetes.io/enforce"))))
		Expect(userCan("admin-of-"+t.Name, "create", "deployments", old.Name, "")(ctx)).To(BeFalse())
		Eventually(ctx, eventsAbout(t)).Should(
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceRetained,
				Note: old.Name}))
		suite.DeleteNamespaceAfter(old.Name)
	})

	It("is deleted after its namespaces, and reports that it waits for them", func(ctx SpecContext) {
		suite.NeedsControllers()
		t := givenReady(ctx, build(unique("wait"), suffixes("dev")))
		blocker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Name + "-dev", Name: "blocker", Finalizers: []string{"example.com/hold"}}}
		Expect(k8s.Create(ctx, blocker)).To(Succeed())

		Expect(k8s.Delete(ctx, t, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			expect.BeTerminating(), expect.HaveFinalizer(v1beta1.TenantFinalizer),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonDeleting),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", ContainSubstring(t.Name+"-dev"))))))

		change(ctx, blocker, func(c *corev1.ConfigMap) { c.Finalizers = nil })
		Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(reading(namespaceOf(t.Name + "-dev"))(ctx)).To(expect.BeGone())
		Expect(reading(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leasehold:tenant-reader:" + t.Name}})(ctx)).
			To(expect.BeGone())
		Expect(reading(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "leasehold:tenant-reader:" +
			t.Name}})(ctx)).To(expect.BeGone())
	})

	It("names an API whose server does not answer, for which the deletion of its namespaces waits", Serial, func(ctx SpecContext) {
		suite.NeedsControllers()
		if suite.Outlives() {
			Skip("would hold up the deletion of each namespace of a cluster of others")
		}
		t := givenReady(ctx, build(unique("undiscovered"), suffixes("dev")))
		service := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": "v1beta1.broken.example.com"},
			"spec": map[string]any{"group": "broken.example.com", "version": "v1beta1", "groupPriorityMinimum": 100,
				"versionPriority": 100, "insecureSkipTLSVerify": true,
				"service": map[string]any{"namespace": "default", "name": "no-such-service", "port": 443}}}}
		Expect(k8s.Create(ctx, service)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, service))).To(Succeed()) })
		Expect(k8s.Delete(ctx, t)).To(Succeed())
		// kube-aggregator first has to find that the Service is not there.
		Eventually(ctx, fetched(t)).WithTimeout(expect.Long).Should(HaveField("Status.Conditions", ContainElement(
			HaveField("Message", And(ContainSubstring("waiting for the deletion of namespace "+t.Name+"-dev"),
				ContainSubstring("broken.example.com"))))))
		Expect(k8s.Delete(ctx, service)).To(Succeed())
		Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
	})

	It("is left alone while it is paused, and reconciled on request", func(ctx SpecContext) {
		t := given(ctx, build(unique("paused"), suffixes("dev"),
			func(t *v1beta1.Tenant) { t.Annotations = map[string]string{v1beta1.AnnotationPaused: "True"} }))
		Eventually(ctx, fetched(t)).Should(
			expect.HaveCondition(v1beta1.ConditionPaused, metav1.ConditionTrue, v1beta1.ReasonPaused))
		_, cells := suite.Table(ctx, "tenants", "", t.Name)
		Expect(cells[5]).To(Equal("True"), "in the column PAUSED")
		Expect(t.Finalizers).To(BeEmpty())
		Expect(reading(namespaceOf(t.Name + "-dev"))(ctx)).To(expect.BeGone())

		change(ctx, t, func(t *v1beta1.Tenant) {
			t.Annotations = map[string]string{v1beta1.AnnotationRequestedAt: "2026-11-27T06:30:00Z"}
		})
		eventuallyReady(ctx, t)
		Expect(t.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1beta1.ConditionPaused)))
		Expect(t.Status.LastHandledReconcileAt).To(Equal("2026-11-27T06:30:00Z"))

		By("refusing a deletion that would not wait for the operator")
		pausing := func(value string) {
			change(ctx, t, func(t *v1beta1.Tenant) { t.Annotations = map[string]string{v1beta1.AnnotationPaused: value} })
		}
		pausing("true")
		Expect(k8s.Delete(ctx, t, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(
			MatchError(ContainSubstring("--cascade=background")))
		Expect(fetched(namespaceOf(t.Name + "-dev"))(ctx)).To(HaveField("DeletionTimestamp", BeNil()))
		pausing("false")
	})

	DescribeTable("releases its namespaces, without ownership labels and bindings, when it is deleted",
		func(ctx SpecContext, policy func(*v1beta1.Tenant), propagation metav1.DeletionPropagation) {
			suite.NeedsControllers()
			t := givenReady(ctx, build(unique("left"), suffixes("dev"), policy))
			ns := namespaceOf(t.Name + "-dev")
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
			uid := ns.UID

			Expect(k8s.Delete(ctx, t, client.PropagationPolicy(propagation))).To(Succeed())
			Eventually(ctx, reading(t)).WithTimeout(expect.Medium).Should(expect.BeGone())
			Expect(fetched(ns)(ctx)).To(And(
				HaveField("UID", uid),
				HaveField("DeletionTimestamp", BeNil()),
				HaveField("OwnerReferences", BeEmpty()),
				HaveField("Annotations", Not(HaveKey(v1beta1.AnnotationTenantUID)))))
			Expect(reading(bindingIn(ns.Name))(ctx)).To(expect.BeGone())
			suite.DeleteNamespaceAfter(ns.Name)
		},
		Entry("under Retain, in the foreground", retain, metav1.DeletePropagationForeground),
		Entry("under Delete, with --cascade=orphan", func(*v1beta1.Tenant) {}, metav1.DeletePropagationOrphan),
	)
})

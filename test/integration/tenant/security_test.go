package tenant_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// Each spec is named after what went wrong elsewhere; the ids are those of the
// advisories' table in the notes the project was designed by.
var _ = Describe("What does not belong to a Tenant", func() {
	It("is not taken by a planted owner reference and label", func(ctx SpecContext) {
		suite.NeedsControllers()
		t := givenReady(ctx, build(unique("plant")))
		victim := stranger(ctx, unique("victim"))
		change(ctx, victim, func(ns *corev1.Namespace) {
			ns.Labels[v1beta1.LabelTenant] = t.Name
			ns.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(t, v1beta1.GroupVersion.WithKind("Tenant"))}
		})

		Eventually(ctx, eventsAbout(t)).WithTimeout(expect.Short).Should(
			expect.ContainEvent(expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventForeignNamespace,
				Note: victim.Name}))
		By("taking the false owner reference off, so that the garbage collector has nothing to go by")
		Eventually(ctx, fetched(victim)).Should(HaveField("OwnerReferences", BeEmpty()))
		Expect(reading(bindingIn(victim.Name))(ctx)).To(expect.BeGone())
		Expect(fetched(t)(ctx)).To(HaveField("Status.Namespaces", Not(ContainElement(HaveField("Name", victim.Name)))))

		By("leaving it alone when the Tenant goes")
		uid := victim.UID
		Expect(k8s.Delete(ctx, t)).To(Succeed())
		Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
		Expect(fetched(victim)(ctx)).To(And(HaveField("UID", uid), HaveField("DeletionTimestamp", BeNil())))
	})

	It("keeps its namespace when that was there before, also when the Tenant in conflict is deleted",
		func(ctx SpecContext) {
			suite.NeedsControllers()
			name := unique("clash")
			victim := stranger(ctx, name+"-dev")
			t := given(ctx, build(name))
			Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict),
				expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonNamespaceConflict)))
			By("still seeing to the other namespace")
			Expect(fetched(namespaceOf(name + "-prod"))(ctx)).To(expect.BeControlledBy(t))
			Expect(fetched(bindingIn(name + "-prod"))(ctx)).To(expect.BeControlledBy(t))

			By("putting nothing into the other's namespace")
			var bindings rbacv1.RoleBindingList
			Expect(k8s.List(ctx, &bindings, client.InNamespace(victim.Name))).To(Succeed())
			Expect(bindings.Items).To(BeEmpty())
			before := victim.ResourceVersion
			Expect(fetched(victim)(ctx)).To(HaveField("ResourceVersion", before))
			Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventNamespaceConflict, Note: victim.Name}))

			By("leaving it when the Tenant is deleted")
			Expect(k8s.Delete(ctx, t)).To(Succeed())
			Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
			Expect(fetched(victim)(ctx)).To(HaveField("ResourceVersion", before))
		})

	It("gives way once it is gone", func(ctx SpecContext) {
		suite.NeedsControllers()
		name := unique("yield")
		victim := stranger(ctx, name+"-dev")
		t := given(ctx, build(name, suffixes("dev")))
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict))
		Expect(k8s.Delete(ctx, victim)).To(Succeed())
		Eventually(ctx, fetched(t)).WithTimeout(expect.Long).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
		Expect(fetched(t)(ctx)).To(HaveField("Status.Conditions",
			Not(ContainElement(HaveField("Type", v1beta1.ConditionStalled)))))
	})

	It("is not taken by a Tenant that is made anew under the same name", func(ctx SpecContext) {
		name := unique("anew")
		first := givenReady(ctx, build(name, suffixes("dev"), retain))
		Expect(k8s.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, reading(first)).WithTimeout(expect.Medium).Should(expect.BeGone())

		second := given(ctx, build(name, suffixes("dev"), retain))
		Eventually(ctx, fetched(second)).WithTimeout(expect.Medium).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict))
		Expect(reading(bindingIn(name + "-dev"))(ctx)).To(expect.BeGone())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, namespaceOf(name+"-dev"))).To(Succeed()) })
	})

	It("keeps a ClusterRole or ClusterRoleBinding of the name we would use", func(ctx SpecContext) {
		name := unique("role")
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leasehold:tenant-reader:" + name}}
		Expect(k8s.Create(ctx, role)).To(Succeed())
		before := role.ResourceVersion
		t := given(ctx, build(name, suffixes("dev")))
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonChildConflict),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", ContainSubstring(role.Name))))))
		Expect(fetched(role)(ctx)).To(HaveField("ResourceVersion", before))
		By("going on by itself once it is gone")
		Expect(k8s.Delete(ctx, role)).To(Succeed())
		eventuallyReady(ctx, t)
	})

	It("does not hide behind another controller under the name of the admins' RoleBinding", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("rb"), suffixes("dev")))
		binding := bindingIn(t.Name + "-dev")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		uid := binding.UID
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: binding.Namespace, Name: "owner"}}
		Expect(k8s.Create(ctx, owner)).To(Succeed())
		change(ctx, binding, func(b *rbacv1.RoleBinding) {
			b.Annotations = nil
			b.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			b.Subjects = nil
		})
		Eventually(ctx, fetched(binding)).WithTimeout(expect.Short).Should(And(
			expect.BeControlledBy(t), HaveField("OwnerReferences", HaveLen(1)), HaveField("Subjects", HaveLen(1)),
			HaveField("UID", Not(Equal(uid)))))
	})
})

var _ = Describe("Drift", func() {
	It("of a namespace's marks and pod-security level is put back", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("drift"), suffixes("dev")))
		ns := namespaceOf(t.Name + "-dev")
		change(ctx, ns, func(ns *corev1.Namespace) {
			ns.OwnerReferences, ns.Annotations, ns.Labels = nil, nil, map[string]string{
				"kubernetes.io/metadata.name": ns.Name, "pod-security.kubernetes.io/enforce": "privileged", "team": "x"}
		})
		Eventually(ctx, fetched(ns)).WithTimeout(expect.Short).Should(And(
			expect.BeControlledBy(t),
			HaveField("Annotations", HaveKeyWithValue(v1beta1.AnnotationTenantUID, string(t.UID))),
			HaveField("Labels", HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline")),
			HaveField("Labels", HaveKeyWithValue("team", "x"))))
	})

	It("of the finalizer is put back, so that the Tenant cannot go without its namespaces", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("hold"), suffixes("dev")))
		change(ctx, t, func(t *v1beta1.Tenant) { t.Finalizers = []string{"example.com/hold"} })
		DeferCleanup(func(ctx SpecContext) {
			change(ctx, t, func(t *v1beta1.Tenant) { t.Finalizers = []string{v1beta1.TenantFinalizer} })
		})
		Eventually(ctx, fetched(t)).WithTimeout(expect.Short).Should(And(
			expect.HaveFinalizer(v1beta1.TenantFinalizer), expect.HaveFinalizer("example.com/hold")))
	})

	DescribeTable("of the admins' right to read their Tenant is put back",
		func(ctx SpecContext, spoil func(context.Context, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding)) {
			t := givenReady(ctx, build(unique("read"), suffixes("dev"),
				admins(v1beta1.Subject{Kind: v1beta1.SubjectUser, Name: "reader"})))
			meta := metav1.ObjectMeta{Name: "leasehold:tenant-reader:" + t.Name}
			role, binding := &rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta}
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
			rules, subjects := role.Rules, binding.Subjects
			spoil(ctx, role, binding)
			restored := And(expect.BeControlledBy(t),
				HaveField("Annotations", HaveKeyWithValue(v1beta1.AnnotationTenantUID, string(t.UID))))
			Eventually(ctx, fetched(&rbacv1.ClusterRole{ObjectMeta: meta})).WithTimeout(expect.Short).
				Should(And(restored, HaveField("Rules", Equal(rules))))
			Eventually(ctx, fetched(&rbacv1.ClusterRoleBinding{ObjectMeta: meta})).WithTimeout(expect.Short).Should(
				And(restored, HaveField("Subjects", Equal(subjects)), HaveField("RoleRef.Name", meta.Name)))
		},
		Entry("when the role is deleted", func(ctx context.Context, r *rbacv1.ClusterRole, _ *rbacv1.ClusterRoleBinding) {
			Expect(k8s.Delete(ctx, r)).To(Succeed())
		}),
		Entry("when the role gives other rights",
			func(ctx context.Context, r *rbacv1.ClusterRole, _ *rbacv1.ClusterRoleBinding) {
				change(ctx, r, func(r *rbacv1.ClusterRole) { r.Rules[0].Verbs = []string{"get", "delete"} })
			}),
		Entry("when the role has lost its marks",
			func(ctx context.Context, r *rbacv1.ClusterRole, _ *rbacv1.ClusterRoleBinding) {
				change(ctx, r, func(r *rbacv1.ClusterRole) { r.Annotations, r.Labels = nil, nil })
			}),
		Entry("when the binding is deleted", func(ctx context.Context, _ *rbacv1.ClusterRole, b *rbacv1.ClusterRoleBinding) {
			Expect(k8s.Delete(ctx, b)).To(Succeed())
		}),
		Entry("when the binding has other subjects",
			func(ctx context.Context, _ *rbacv1.ClusterRole, b *rbacv1.ClusterRoleBinding) {
				change(ctx, b, func(b *rbacv1.ClusterRoleBinding) {
					b.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}
				})
			}),
		Entry("when the binding has lost its marks",
			func(ctx context.Context, _ *rbacv1.ClusterRole, b *rbacv1.ClusterRoleBinding) {
				change(ctx, b, func(b *rbacv1.ClusterRoleBinding) { b.Annotations, b.Labels = nil, nil })
			}),
	)

	DescribeTable("of the admins' binding is put back and told",
		func(ctx SpecContext, spoil func(SpecContext, *rbacv1.RoleBinding)) {
			t := givenReady(ctx, build(unique("bind"), suffixes("dev")))
			binding := bindingIn(t.Name + "-dev")
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
			want := binding.DeepCopy()
			spoil(ctx, binding)
			restored := bindingIn(t.Name + "-dev")
			Eventually(ctx, fetched(restored)).WithTimeout(expect.Short).Should(And(
				expect.BeControlledBy(t),
				HaveField("RoleRef", Equal(want.RoleRef)),
				HaveField("Subjects", Equal(want.Subjects)),
				HaveField("Annotations", Equal(want.Annotations))))
			Eventually(ctx, eventsAbout(t)).Should(expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventAdminBindingRepaired, Note: binding.Namespace}))
		},
		Entry("when it is deleted", func(ctx SpecContext,
			b *rbacv1.RoleBinding) {
			Expect(k8s.Delete(ctx, b)).To(Succeed())
		}),
		Entry("when its subjects are changed", func(ctx SpecContext, b *rbacv1.RoleBinding) {
			change(ctx, b, func(b *rbacv1.RoleBinding) {
				b.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"}}
			})
		}),
		Entry("when its marks are stripped, so that a right could not be hidden",
			func(ctx SpecContext, b *rbacv1.RoleBinding) {
				change(ctx, b, func(b *rbacv1.RoleBinding) { b.OwnerReferences, b.Annotations, b.Labels = nil, nil, nil })
			}),
		Entry("when it is replaced by one to another role (roleRef is immutable)",
			func(ctx SpecContext, b *rbacv1.RoleBinding) {
				other := bindingIn(b.Namespace)
				other.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
				other.Subjects = b.Subjects
				Eventually(func(g Gomega) { // the operator races to put the right one back
					g.Expect(client.IgnoreNotFound(k8s.Delete(ctx, b))).To(Succeed())
					g.Expect(k8s.Create(ctx, other.DeepCopy())).To(Succeed())
				}).WithTimeout(expect.Short).Should(Succeed())
			}),
	)
})

var _ = Describe("The rights of admins", func() {
	BeforeEach(suite.NeedsControllers)

	It("pass from one to another in one step", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("pass"), suffixes("dev")))
		ns, first := t.Name+"-dev", "admin-of-"+t.Name
		Eventually(ctx, userCan(first, "create", "deployments", ns, "")).Should(BeTrue())
		change(ctx, t, admins(v1beta1.Subject{Kind: v1beta1.SubjectUser, Name: "second"}))
		eventuallyReady(ctx, t)
		Eventually(ctx, userCan("second", "create", "deployments", ns, "")).Should(BeTrue())
		Eventually(ctx, userCan(first, "create", "deployments", ns, "")).Should(BeFalse())
		Eventually(ctx, userCan(first, "get", "tenants", "", t.Name)).Should(BeFalse())
		By("not calling a change that was asked for a repair")
		Expect(eventsAbout(t)(ctx)).NotTo(expect.ContainEvent(
			expect.Event{Type: corev1.EventTypeWarning, Reason: v1beta1.EventAdminBindingRepaired}))
	})

	It("of service accounts of the same name in different namespaces stay apart", func(ctx SpecContext) {
		account := func(ns string) v1beta1.Subject {
			return v1beta1.Subject{Kind: v1beta1.SubjectServiceAccount, Name: "robot", Namespace: ns}
		}
		a := givenReady(ctx, build(unique("sa"), suffixes("dev"), admins(account("space-a"))))
		b := givenReady(ctx, build(unique("sa"), suffixes("dev"), admins(account("space-b"))))
		for _, tc := range []struct {
			account, namespace string
			allowed            bool
		}{{"space-a", a.Name, true}, {"space-b", b.Name, true}, {"space-a", b.Name, false}, {"space-b", a.Name, false}} {
			user := fmt.Sprintf("system:serviceaccount:%s:robot", tc.account)
			Eventually(ctx, userCan(user, "create", "deployments", tc.namespace+"-dev", "")).Should(Equal(tc.allowed), "%+v", tc)
		}
	})

	It("never reach the namespace itself, by any path", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("path"), suffixes("dev"),
			admins(v1beta1.Subject{Kind: v1beta1.SubjectGroup, Name: "team"})))
		name := t.Name + "-dev"
		Eventually(ctx, can("ann", []string{"team"}, "get", "namespaces", "", name, name)).Should(BeTrue())
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			for _, sub := range []string{"", "status", "finalize"} {
				Expect(can("ann", []string{"team"}, verb, "namespaces", sub, name, name)(ctx)).To(BeFalse(),
					"%s namespaces/%s", verb, sub)
			}
			for _, sub := range []string{"", "status", "finalizers"} {
				Expect(can("ann", []string{"team"}, verb, "tenants", sub, "", t.Name)(ctx)).To(BeFalse(), "%s tenants/%s", verb, sub)
			}
		}
		By("trying it for real, as an admin")
		config := rest.CopyConfig(suite.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: []string{"team", "system:authenticated"}}
		ann, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		ns, err := ann.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		ns.Spec.Finalizers = nil
		_, err = ann.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "finalize: %v", err)
		_, err = ann.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "status: %v", err)
		ns.Labels = nil
		_, err = ann.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "update: %v", err)
	})
})

var _ = Describe("A namespace on its way out", func() {
	It("is left alone until it is gone, and then made anew", func(ctx SpecContext) {
		suite.NeedsControllers()
		t := givenReady(ctx, build(unique("term")))
		dev, prod := namespaceOf(t.Name+"-dev"), namespaceOf(t.Name+"-prod")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(dev), dev)).To(Succeed())
		uid := dev.UID
		blocker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: dev.Name, Name: "blocker", Finalizers: []string{"example.com/hold"}}}
		Expect(k8s.Create(ctx, blocker)).To(Succeed())
		Expect(k8s.Delete(ctx, dev)).To(Succeed())
		Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceTerminating),
			HaveField("Status.Namespaces",
				ContainElement(And(HaveField("Name", dev.Name), HaveField("Reason", v1beta1.ReasonNamespaceTerminating))))))

		By("seeing to the other one meanwhile")
		Expect(k8s.Delete(ctx, bindingIn(prod.Name))).To(Succeed())
		Eventually(ctx, fetched(bindingIn(prod.Name))).WithTimeout(expect.Short).Should(expect.BeControlledBy(t))

		change(ctx, blocker, func(c *corev1.ConfigMap) { c.Finalizers = nil })
		Eventually(ctx, fetched(dev)).WithTimeout(expect.Long).Should(And(
			HaveField("UID", Not(Equal(uid))), expect.BeControlledBy(t)))
		eventuallyReady(ctx, t)
		Expect(fetched(bindingIn(dev.Name))(ctx)).To(expect.BeControlledBy(t))
	})
})

// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// flags are the operator's options.
var flags = Options{AdminClusterRole: "admin", OperatorNamespace: "leasehold-system", PodSecurityLevel: "baseline",
	ReservedNamespaces: []string{"cert-manager", "cattle-*"}}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tenant builds a Tenant as the API server would return it.
func tenant(name string, with ...func(*v1beta1.Tenant)) *v1beta1.Tenant {
	t := &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1,
			Finalizers: []string{v1beta1.TenantFinalizer}},
		Spec: v1beta1.TenantSpec{
			NamespacePrefix: name + "-", Namespaces: []v1beta1.NamespaceSuffix{"dev"},
			Admins:                  []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}},
			NamespaceDeletionPolicy: v1beta1.NamespaceDelete,
		},
	}
	for _, f := range with {
		f(t)
	}
	return t
}

func fresh(t *v1beta1.Tenant) { t.Finalizers = nil }

func naming(suffixes ...v1beta1.NamespaceSuffix) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.Namespaces = suffixes }
}

func prefix(p string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.NamespacePrefix = p }
}

func admins(names ...string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		t.Spec.Admins = nil
		for _, name := range names {
			t.Spec.Admins = append(t.Spec.Admins, v1beta1.Subject{Kind: v1beta1.SubjectUser, Name: name})
		}
	}
}

func everyKindOfAdmin(t *v1beta1.Tenant) {
	t.Spec.Admins = []v1beta1.Subject{
		{Kind: v1beta1.SubjectUser, Name: "ann"}, {Kind: v1beta1.SubjectGroup, Name: "devs"},
		{Kind: v1beta1.SubjectServiceAccount, Name: "ci", Namespace: "build"},
	}
}

func retaining(t *v1beta1.Tenant) { t.Spec.NamespaceDeletionPolicy = v1beta1.NamespaceRetain }

func deleted(t *v1beta1.Tenant) { t.DeletionTimestamp = &metav1.Time{Time: epoch} }

func orphaning(t *v1beta1.Tenant) {
	t.Finalizers = append(t.Finalizers, metav1.FinalizerOrphanDependents)
}

func next(t *v1beta1.Tenant) { t.Generation = 2 }

// former makes the Tenant one that was deleted before.
func former(t *v1beta1.Tenant) { t.UID = "uid-former" }

// owning records namespaces in the status, each with the UID that namespace assigns.
func owning(names ...string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		for _, name := range names {
			t.Status.Namespaces = append(t.Status.Namespaces,
				v1beta1.TenantNamespace{Name: name, UID: types.UID("uid-" + name), Reason: v1beta1.ReasonReconciled})
		}
	}
}

// listing records a namespace in the status without a UID.
func listing(name, reason string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		t.Status.Namespaces = append(t.Status.Namespaces, v1beta1.TenantNamespace{Name: name, Reason: reason})
	}
}

// declaring records that the namespaces are about to be created.
func declaring(names ...string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Status = intent(t, names, epoch) }
}

// having adds a condition of generation 1 to the status.
func having(kind string, status metav1.ConditionStatus, reason, message string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		t.Status.ObservedGeneration = 1
		t.Status.Conditions = append(t.Status.Conditions, metav1.Condition{Type: kind, Status: status,
			ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(epoch), Reason: reason, Message: message})
	}
}

func namespace(name string, with ...func(*corev1.Namespace)) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	for _, f := range with {
		f(ns)
	}
	return ns
}

func ownedBy(t *v1beta1.Tenant) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) {
		m := namespaceMeta(t, ns.Name, "baseline")
		ns.Labels, ns.Annotations, ns.OwnerReferences = m.Labels, m.Annotations, m.OwnerReferences
	}
}

func terminating(ns *corev1.Namespace) { ns.DeletionTimestamp = &metav1.Time{Time: epoch} }

func unowned(ns *corev1.Namespace) { ns.OwnerReferences = nil }

func bare(ns *corev1.Namespace) { ns.Labels, ns.Annotations, ns.OwnerReferences = nil, nil, nil }

// heldBack adds a finalizer of another controller.
func heldBack(o client.Object) { o.SetFinalizers([]string{"example.com/held"}) }

// stranger returns the owner references of an object that the namespace z controls.
func stranger() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(namespace("z"),
		corev1.SchemeGroupVersion.WithKind("Namespace"))}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

// binding returns the admins' binding of a Tenant to the role admin, with these users.
func binding(namespace string, t *v1beta1.Tenant, users ...string) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{ObjectMeta: childMeta(t, namespace, adminBindingName), RoleRef: clusterRole("admin")}
	b.UID = types.UID("uid-rb-" + namespace)
	for _, name := range users {
		b.Subjects = append(b.Subjects, user(name))
	}
	return b
}

// provisioned is a reconciled Tenant and its children.
type provisioned struct {
	tenant        *v1beta1.Tenant
	namespaces    []*corev1.Namespace
	bindings      []*rbacv1.RoleBinding
	reader        *rbacv1.ClusterRole
	readerBinding *rbacv1.ClusterRoleBinding
}

// provision returns the objects of a reconciled Tenant that owns a-dev, after the options and edit have
// changed them. It omits those that edit sets to nil.
func provision(edit func(*provisioned), with ...func(*v1beta1.Tenant)) []client.Object {
	t := tenant("a", append(with, owning("a-dev"))...)
	having(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled, "reconciled namespace a-dev")(t)
	p := &provisioned{tenant: t}
	p.reader, p.readerBinding = readerOf(t)
	p.reader.UID, p.readerBinding.UID = "uid-reader", "uid-reader"
	for _, held := range t.Status.Namespaces {
		b := binding(held.Name, t)
		b.Subjects = subjects(t)
		p.namespaces, p.bindings = append(p.namespaces, namespace(held.Name, ownedBy(t))), append(p.bindings, b)
	}
	if edit != nil {
		edit(p)
	}
	objects := []client.Object{p.tenant, p.readerBinding}
	if p.reader != nil {
		objects = append(objects, p.reader)
	}
	for i := range p.namespaces {
		if p.namespaces[i] != nil {
			objects = append(objects, p.namespaces[i])
		}
		if p.bindings[i] != nil {
			objects = append(objects, p.bindings[i])
		}
	}
	return objects
}

// denied is the API server's error for a write of a replica that is not the leader.
func denied() error {
	const message = "ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'b' denied request: " +
		"Pod a does not hold the Lease"
	return forbidden("x", message, metav1.StatusCause{Message: message})
}

// notHeld is the API server's error for a binding that RBAC forbids to the writer.
func notHeld() error {
	return apierrors.NewForbidden(rbacv1.Resource("rolebindings"), adminBindingName,
		errors.New("user \"op\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently held:\n{}"))
}

func forbidden(kind, text string, causes ...metav1.StatusCause) error {
	err := apierrors.NewForbidden(corev1.Resource(kind), "a-dev", errors.New(text))
	err.ErrStatus.Details.Causes = causes
	return err
}

// refuse fails the requests whose name has this prefix.
func refuse(request string, reason error) refusal {
	return func(q reconcilertest.Request) error {
		if strings.HasPrefix(q.Name, request) {
			return reason
		}
		return nil
	}
}

// refuseRole refuses to bind one role.
func refuseRole(role string) refusal {
	return func(q reconcilertest.Request) error {
		if !slices.Contains([]string{"apply", "create", "patch"}, q.Verb) || !strings.Contains(q.Name, " RoleBinding ") {
			return nil
		}
		b, ok := q.Object.(*rbacv1.RoleBinding)
		if !ok { // the metadata of an apply
			b = &rbacv1.RoleBinding{}
			if err := json.Unmarshal(q.Body, b); err != nil {
				return err
			}
		}
		if b.RoleRef.Name == role {
			return notHeld()
		}
		return nil
	}
}

// changed is the API server's error for a write of an object that has changed.
func changed() error {
	return apierrors.NewConflict(corev1.Resource("x"), "x", errors.New("changed"))
}

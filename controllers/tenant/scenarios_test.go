package tenant

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// scenario is the initial state of a world with the Tenant a.
type scenario struct {
	objects []client.Object
	options func(*Options)
	// deny makes world.deny.
	deny func() refusal
}

// provisioned is a reconciled Tenant and its children.
type provisioned struct {
	tenant        *v1beta1.Tenant
	namespaces    []*corev1.Namespace
	bindings      []*rbacv1.RoleBinding
	reader        *rbacv1.ClusterRole
	readerBinding *rbacv1.ClusterRoleBinding
}

// provision returns the objects of a reconciled Tenant that owns a-dev, after the options
// and edit have changed them.
func provision(edit func(*provisioned), with ...func(*v1beta1.Tenant)) []client.Object {
	t := tenant("a", append(with, owning("a-dev"))...)
	t.Status.ObservedGeneration = 1
	t.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue,
		ObservedGeneration: 1,
		LastTransitionTime: metav1.NewTime(epoch), Reason: v1beta1.ReasonReconciled, Message: "reconciled namespace a-dev"}}
	m, name := childMeta(t), readerNamePrefix+t.Name
	meta := metav1.ObjectMeta{Name: name, UID: "uid-reader", Labels: m.labels, Annotations: m.annotations,
		OwnerReferences: []metav1.OwnerReference{*m.owner}}
	p := &provisioned{
		tenant: t, reader: &rbacv1.ClusterRole{ObjectMeta: *meta.DeepCopy(), Rules: readerRules(t)},
		readerBinding: &rbacv1.ClusterRoleBinding{ObjectMeta: *meta.DeepCopy(), RoleRef: clusterRoleRef(name),
			Subjects: subjects(t)},
	}
	for _, held := range t.Status.Namespaces {
		b := binding(held.Name, t)
		b.RoleRef, b.Subjects = clusterRoleRef("admin"), subjects(t)
		p.namespaces, p.bindings = append(p.namespaces, namespace(held.Name, ownedBy(t))), append(p.bindings, b)
	}
	if edit != nil {
		edit(p)
	}
	objects := []client.Object{p.tenant, p.reader, p.readerBinding}
	for i := range p.namespaces {
		objects = append(objects, p.namespaces[i])
		if p.bindings[i] != nil {
			objects = append(objects, p.bindings[i])
		}
	}
	return objects
}

// heldBack adds a finalizer of another controller.
func heldBack(o client.Object) { o.SetFinalizers([]string{"example.com/held"}) }

func (s scenario) with(o ...client.Object) scenario {
	s.objects = append(s.objects, o...)
	return s
}

const always = -1

type refusal = func(verb string, o client.Object) error

// refusing fails the first creations of that kind with an error of the API server.
func refusing(times int, kind string, reason error) func() refusal {
	return func() refusal {
		refused := 0
		return func(v string, o client.Object) error {
			if v != "create" || reconcilertest.KindOf(o) != kind || refused == times {
				return nil
			}
			refused++
			return reason
		}
	}
}

// refusingRole returns refuseRole for a role.
func refusingRole(name string) func() refusal {
	return func() refusal { return refuseRole(name) }
}

func forbidden(kind, text string, causes ...metav1.StatusCause) error {
	err := apierrors.NewForbidden(corev1.Resource(kind), "a-dev", errors.New(text))
	err.ErrStatus.Details.Causes = causes
	return err
}

func everyKindOfAdmin(t *v1beta1.Tenant) {
	t.Spec.Admins = []v1beta1.Subject{
		{Kind: v1beta1.SubjectUser, Name: "ann"}, {Kind: v1beta1.SubjectGroup, Name: "devs"},
		{Kind: v1beta1.SubjectServiceAccount, Name: "ci", Namespace: "build"},
	}
}

// scenarios returns the scenarios by name. Golden files contain the names.
func scenarios() map[string]scenario {
	role := func(name string) func(*Options) { return func(o *Options) { o.AdminClusterRole = name } }
	view := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}
	former := metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "a",
		UID: "uid-former"}
	stranger := []metav1.OwnerReference{*metav1.NewControllerRef(namespace("z"),
		corev1.SchemeGroupVersion.WithKind("Namespace"))}
	restored := tenant("a", func(t *v1beta1.Tenant) { t.UID = "uid-former" })
	sharing := tenant("b", prefix("a-"))
	next := func(t *v1beta1.Tenant) { t.Generation = 2 }
	all := map[string]scenario{
		"created":              {objects: []client.Object{tenant("a", fresh, naming("dev", "prod"), everyKindOfAdmin)}},
		"created under Retain": {objects: []client.Object{tenant("a", fresh, retaining)}},
		"created without a level": {objects: []client.Object{tenant("a", fresh)},
			options: func(o *Options) { o.PodSecurityLevel = "" }},
		"nothing to do":             {objects: provision(nil)},
		"a name is added":           {objects: provision(nil, naming("dev", "prod"), next)},
		"a name is dropped":         {objects: provision(nil, owning("a-old"), next)},
		"a name is dropped, Retain": {objects: provision(nil, owning("a-old"), retaining, next)},
		"a name is dropped without marks, Retain": {objects: provision(func(p *provisioned) {
			p.namespaces[0].ObjectMeta = metav1.ObjectMeta{Name: "a-old", UID: "uid-a-old"}
		}, owning("a-old"), retaining, next)},
		"Retain is asked for": {objects: provision(
			func(p *provisioned) { retaining(p.tenant); p.tenant.Generation = 2 })},
		"Delete is asked for": {objects: provision(
			func(p *provisioned) { p.tenant.Spec.NamespaceDeletionPolicy = "Delete"; p.tenant.Generation = 2 }, retaining)},
		"admins change": {objects: provision(
			func(p *provisioned) { everyKindOfAdmin(p.tenant); p.tenant.Generation = 2 })},
		"deleted": {objects: provision(nil, owning("a-old"), deleted)},
		"deleted under Retain": {objects: provision(func(p *provisioned) { heldBack(p.bindings[0]) }, owning("a-old"),
			retaining, deleted)},
		"deleted with orphans": {objects: provision(nil, deleted, orphaning)},
		"deleted, orphaned already": {objects: provision(func(p *provisioned) { p.namespaces[0].OwnerReferences = nil },
			deleted)},
		"deleted, one is held back": {objects: provision(func(p *provisioned) {
			ns := p.namespaces[0]
			terminating(ns)
			heldBack(ns)
			ns.Status.Conditions = []corev1.NamespaceCondition{{Type: corev1.NamespaceFinalizersRemaining,
				Status: corev1.ConditionTrue, Message: "2 finalizers remain"}}
		}, deleted)},
		"deleted, the readers' role is a stranger's": {objects: provision(func(p *provisioned) {
			p.reader.ObjectMeta = metav1.ObjectMeta{Name: p.reader.Name, UID: "uid-stranger"}
		}, deleted)},
		"deleted, false references elsewhere": scenario{objects: provision(nil, deleted)}.with(
			namespace("x", plant), namespace("y", plant,
				func(ns *corev1.Namespace) { ns.OwnerReferences = append(ns.OwnerReferences, stranger...) }),
			namespace("z", ownedBy(tenant("a", retaining)))),
		"deleted, a stranger's namespace has a binding under our name": {objects: []client.Object{
			tenant("a", deleted), namespace("a-dev"),
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a-dev", Name: adminBindingName,
				UID: "uid-stranger"}}}},
		"a stranger's namespaces": scenario{objects: []client.Object{tenant("a",
			naming("a", "b", "c", "d", "e", "f", "dev"))}}.with(
			namespace("a-a"), namespace("a-b"), namespace("a-c"), namespace("a-d"), namespace("a-e"), namespace("a-f", plant),
			namespace("a-dev", ownedBy(restored))),
		"claimed by others": scenario{objects: provision(nil)}.with(
			namespace("x", plant), namespace("y", ownedBy(tenant("a", retaining))), binding("elsewhere", tenant("a"))),
		"handed over": {objects: provision(
			func(p *provisioned) { p.namespaces[0].OwnerReferences = []metav1.OwnerReference{former} })},
		"restored": {objects: provision(func(p *provisioned) {
			for _, o := range []client.Object{p.reader, p.readerBinding, p.bindings[0]} {
				o.SetOwnerReferences([]metav1.OwnerReference{former})
				o.SetAnnotations(map[string]string{v1beta1.AnnotationTenantUID: "uid-former"})
			}
		})},
		"names that are refused": {objects: provision(nil, naming("dev", "Bad"), owning("a-own")),
			options: func(o *Options) { o.OperatorNamespace = "a-dev" }},
		"the namespace has drifted": {objects: provision(func(p *provisioned) {
			p.namespaces[0].Labels = map[string]string{"example.com/x": "y", labelPodSecurity: "privileged"}
		})},
		"the binding has drifted": {objects: provision(func(p *provisioned) {
			drifted := &p.bindings[0].ObjectMeta
			drifted.Labels = nil
			drifted.OwnerReferences = append(slices.Clone(stranger), metav1.OwnerReference{Kind: "Thing", UID: "uid-thing"})
			p.bindings[0].Subjects = append(p.bindings[0].Subjects, user("mallory"))
		})},
		"the binding is gone": {objects: provision(func(p *provisioned) { p.bindings[0] = nil })},
		"the binding is another Tenant's": scenario{objects: provision(
			func(p *provisioned) { p.bindings[0] = binding("a-dev", sharing) })}.with(sharing),
		"the readers' role has drifted": {objects: provision(func(p *provisioned) {
			p.reader.Rules[0].Verbs, p.readerBinding.Subjects = []string{"get", "update"}, nil
		})},
		"the readers' binding is to another role": {objects: provision(
			func(p *provisioned) { p.readerBinding.RoleRef = clusterRoleRef("admin") })},
		"the readers' binding is a stranger's": {objects: provision(func(p *provisioned) {
			p.readerBinding.ObjectMeta = metav1.ObjectMeta{Name: p.readerBinding.Name, UID: "uid-stranger"}
			p.readerBinding.RoleRef = clusterRoleRef("admin")
		})},
		"another role": {objects: append(provision(nil), view), options: role("view")},
		"another role, not held": {objects: append(
			provision(func(p *provisioned) { p.bindings[0].Subjects = append(p.bindings[0].Subjects, user("mallory")) }), view),
			options: role("view"), deny: refusingRole("view")},
		"another role, not there": {objects: provision(nil), options: role("view")},
		"changed meanwhile": {objects: provision(func(p *provisioned) { p.bindings[0] = nil }),
			deny: refusing(1, "RoleBinding", apierrors.NewConflict(corev1.Resource("x"), "x", errors.New("changed")))},
		"the namespace is gone": {objects: slices.DeleteFunc(provision(func(p *provisioned) { p.bindings[0] = nil }),
			func(o client.Object) bool { return o.GetName() == "a-dev" })},
		"deleted, its names are refused by now": {objects: provision(nil, deleted),
			options: func(o *Options) { o.OperatorNamespace = "a-dev" }},
		"a policy goes on refusing": {objects: []client.Object{tenant("a", next, func(t *v1beta1.Tenant) {
			t.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse,
				ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(epoch), Reason: v1beta1.ReasonAdmissionDenied,
				Message: `namespaces "a-dev" is forbidden: violates "x"`}}
		})}, deny: refusing(always, "Namespace", forbidden("namespaces", `violates "x"`))},
		"a binding that is not held": {objects: []client.Object{tenant("a")}, deny: refusingRole("admin")},
		"a quota refuses": {objects: []client.Object{tenant("a")},
			deny: refusing(always, "RoleBinding",
				forbidden("rolebindings", "exceeded quota: small, requested: count/rolebindings=1"))},
		"a policy refuses": {objects: []client.Object{tenant("a")},
			deny: refusing(always, "Namespace", forbidden("namespaces", `violates "x" by 100%`))},
		"the authorizer refuses": {objects: []client.Object{tenant("a")},
			deny: refusing(always, "Namespace", forbidden("namespaces", `User "op" cannot create resource "namespaces"`))},
		"the namespace is terminating": {objects: provision(func(p *provisioned) { p.bindings[0] = nil }),
			deny: refusing(always, "RoleBinding",
				forbidden("rolebindings", "unable to create new content",
					metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}))},
		"another Tenant than it was": {objects: provision(func(p *provisioned) { p.tenant.UID = types.UID("uid-anew") })},
	}
	return all
}

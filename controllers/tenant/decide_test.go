package tenant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

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

func naming(suffixes ...v1beta1.NamespaceSuffix) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.Namespaces = suffixes }
}

func retaining(t *v1beta1.Tenant) { t.Spec.NamespaceDeletionPolicy = v1beta1.NamespaceRetain }

func deleted(t *v1beta1.Tenant) { t.DeletionTimestamp = &metav1.Time{Time: epoch} }

func orphaning(t *v1beta1.Tenant) {
	t.Finalizers = append(t.Finalizers, metav1.FinalizerOrphanDependents)
}

// owning records namespaces in the status, each with the UID that namespace assigns.
func owning(names ...string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) {
		for _, name := range names {
			t.Status.Namespaces = append(t.Status.Namespaces,
				v1beta1.TenantNamespace{Name: name, UID: types.UID("uid-" + name), Reason: v1beta1.ReasonReconciled})
		}
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
		m := namespaceMeta(t, "baseline")
		ns.Labels, ns.Annotations = m.labels, m.annotations
		if m.owner != nil {
			ns.OwnerReferences = []metav1.OwnerReference{*m.owner}
		}
	}
}

func terminating(ns *corev1.Namespace) { ns.DeletionTimestamp = &metav1.Time{Time: epoch} }

func observed(t *v1beta1.Tenant, namespaces ...*corev1.Namespace) *observation {
	o := &observation{tenant: t, before: t.Status,
		namespaces: map[string]*corev1.Namespace{}, bindings: map[string]*rbacv1.RoleBinding{}}
	for _, ns := range namespaces {
		o.namespaces[ns.Name] = ns
	}
	return o
}

func TestDecide(t *testing.T) {
	a := tenant("a")
	other := tenant("b")
	former := tenant("a", func(t *v1beta1.Tenant) { t.UID = "uid-former" })
	for reason, tc := range map[string]struct {
		o    *observation
		want string
	}{
		"a namespace that does not exist is created": {
			observed(tenant("a", naming("dev", "prod"))), "a-dev:create a-prod:create"},
		"an owned one is kept": {
			observed(a, namespace("a-dev", ownedBy(a))), "a-dev:keep"},
		"a recorded one without ownership labels is kept": {
			observed(tenant("a", owning("a-dev")), namespace("a-dev")), "a-dev:keep"},
		"one without ownership labels is not adopted": {
			observed(a, namespace("a-dev")), "a-dev:conflict"},
		"one with another tenant's ownership labels is not adopted": {
			observed(a, namespace("a-dev", ownedBy(other))), "a-dev:conflict"},
		"one that was made anew under a recorded name is not adopted": {
			observed(tenant("a", owning("a-dev")), namespace("a-dev", func(ns *corev1.Namespace) { ns.UID = "new" })),
			"a-dev:conflict"},
		"nothing is done in a terminating one, and it is not made anew yet": {
			observed(a, namespace("a-dev", ownedBy(a), terminating)), "a-dev:wait"},
		"a dropped one is removed": {
			observed(tenant("a", owning("a-dev", "a-old")), namespace("a-dev", ownedBy(a)), namespace("a-old", ownedBy(a))),
			"a-dev:keep a-old:remove"},
		"a dropped one is waited for while it terminates": {
			observed(tenant("a", owning("a-dev", "a-old")), namespace("a-dev", ownedBy(a)),
				namespace("a-old", ownedBy(a), terminating)), "a-dev:keep a-old:wait"},
		"a dropped one that is gone is forgotten": {
			observed(tenant("a", owning("a-dev", "a-old")), namespace("a-dev", ownedBy(a))), "a-dev:keep a-old:forget"},
		"a dropped one that was never owned is forgotten": {
			observed(tenant("a", owning("a-dev"), func(t *v1beta1.Tenant) {
				t.Status.Namespaces = append(t.Status.Namespaces,
					v1beta1.TenantNamespace{Name: "a-old", Reason: v1beta1.ReasonNamespaceConflict})
			}), namespace("a-dev", ownedBy(a)), namespace("a-old")), "a-dev:keep a-old:forget"},
		"a dropped one that was created but never recorded is removed": {
			observed(tenant("a", owning("a-dev"), func(t *v1beta1.Tenant) {
				t.Status.Namespaces = append(t.Status.Namespaces,
					v1beta1.TenantNamespace{Name: "a-old", Reason: v1beta1.ReasonPending})
			}), namespace("a-dev", ownedBy(a)), namespace("a-old", ownedBy(a))), "a-dev:keep a-old:remove"},
		"under Retain a dropped one is released": {
			observed(tenant("a", retaining, owning("a-dev", "a-old")), namespace("a-dev", ownedBy(a)),
				namespace("a-old", ownedBy(a))), "a-dev:keep a-old:release"},
		"a deleted tenant removes what is its own": {
			observed(tenant("a", deleted, owning("a-dev")), namespace("a-dev", ownedBy(a))), "a-dev:remove"},
		"a deleted tenant creates nothing": {
			observed(tenant("a", deleted)), "a-dev:forget"},
		"a deleted tenant in conflict leaves the other's namespace alone": {
			observed(tenant("a", deleted), namespace("a-dev")), "a-dev:forget"},
		"a deleted tenant keeps what the garbage collector has orphaned already": {
			observed(tenant("a", deleted, owning("a-dev")),
				namespace("a-dev", ownedBy(a), func(ns *corev1.Namespace) { ns.OwnerReferences = nil })), "a-dev:release"},
		"a terminating one that is not owned is a conflict": {
			observed(a, namespace("a-dev", terminating)), "a-dev:conflict"},
		"one of another tenant is a conflict also while it terminates": {
			observed(a, namespace("a-dev", ownedBy(other), terminating)), "a-dev:conflict"},
		"one under a name that is refused keeps only rights that were given": {
			observed(tenant("a", naming("system"), prefix("kube-"), owning("kube-system")), namespace("kube-system")),
			"kube-system:restrict"},
		"one under a name that is refused is waited for while it terminates": {
			observed(tenant("a", naming("system"), prefix("kube-"), owning("kube-system")),
				namespace("kube-system", terminating)), "kube-system:wait"},
		"a foreign one under a refused name is forgotten": {
			observed(tenant("a", naming("system"), prefix("kube-")), namespace("kube-system")), "kube-system:forget"},
		"names that only resemble reserved ones are created": {
			observed(tenant("a", naming("rnetes", "openshifty", "defaulted", "leasehold-systems"), prefix("kube"))),
			"kubedefaulted:create kubeleasehold-systems:create kubeopenshifty:create kubernetes:create"},
		"a refused name does not block the others": {
			observed(tenant("a", naming("dev", "Bad"), owning("a-old")), namespace("a-old", ownedBy(a))),
			"a-Bad:forget a-dev:create a-old:remove"},
		"one that an administrator handed over after a restore is kept": {
			observed(a, namespace("a-dev", ownedBy(former),
				func(ns *corev1.Namespace) { ns.Annotations[v1beta1.AnnotationTenantUID] = "uid-a" })), "a-dev:keep"},
		"one of a former tenant of the same name is a conflict": {
			observed(a, namespace("a-dev", ownedBy(former))), "a-dev:conflict"},
		"a deleted tenant with bad names still lets go": {
			observed(tenant("a", deleted, naming("system"), func(t *v1beta1.Tenant) { t.Spec.NamespacePrefix = "kube-" })),
			"kube-system:forget"},
	} {
		var got []string
		for _, s := range decide(tc.o, "leasehold-system").steps {
			got = append(got, fmt.Sprintf("%s:%s", s.name, s.action))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %q, want %q", reason, strings.Join(got, " "), tc.want)
		}
	}
}

func TestDecideRefusesBadNames(t *testing.T) {
	for reason, tc := range map[string]struct {
		tenant *v1beta1.Tenant
		want   string
	}{
		"reserved by concatenation":    {tenant("a", naming("system"), prefix("kube-")), `would be called "kube-system"`},
		"reserved prefix without dash": {tenant("a", naming("e-x"), prefix("kub")), `would be called "kube-x"`},
		"openshift":                    {tenant("a", naming("monitoring"), prefix("openshift-")), "reserved"},
		"default":                      {tenant("a", naming("ault"), prefix("def")), "reserved"},
		"the operator's own":           {tenant("a", naming("system"), prefix("leasehold-")), "the operator's own"},
		"too long by a derived prefix": {tenant(strings.Repeat("a", 50), naming("0123456789012"), prefix("")),
			"must be no more than 63"},
		"a name with a dot":             {tenant("a", naming("b.c")), "must not contain dots"},
		"a prefix that is no DNS label": {tenant("a", naming("x"), prefix("A_")), "lower case"},
	} {
		p := decide(observed(tc.tenant), "leasehold-system")
		if len(p.invalid) == 0 || slices.ContainsFunc(p.steps, func(s step) bool { return s.action != forget }) {
			t.Errorf("%s: accepted, with steps %v", reason, p.steps)
			continue
		}
		if msg := p.invalid.ToAggregate().Error(); !strings.Contains(msg, tc.want) {
			t.Errorf("%s: message %q does not contain %q", reason, msg, tc.want)
		}
	}
}

func prefix(p string) func(*v1beta1.Tenant) {
	return func(t *v1beta1.Tenant) { t.Spec.NamespacePrefix = p }
}

func binding(namespace string, t *v1beta1.Tenant) *rbacv1.RoleBinding {
	m := childMeta(t)
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: adminBindingName,
		UID:    types.UID("uid-rb-" + namespace),
		Labels: m.labels, Annotations: m.annotations, OwnerReferences: []metav1.OwnerReference{*m.owner}}}
}

func TestDecideDisownsForgedOwnerReferences(t *testing.T) {
	a := tenant("a", owning("a-dev"))
	victim := namespace("victim", ownedBy(a))
	labelled := namespace("labelled", func(ns *corev1.Namespace) {
		ns.Annotations = map[string]string{v1beta1.AnnotationTenantUID: "uid-a"}
	})
	o := observed(a, namespace("a-dev", ownedBy(a)))
	o.foreign = []*corev1.Namespace{victim, labelled}
	p := decide(o, "")
	if len(p.disown) != 1 || p.disown[0] != victim {
		t.Errorf("disown = %v, want only the victim: an annotation causes no deletion", namesOf(p.disown))
	}

	// A namespace under a listed name is foreign too, and is disowned.
	planted := namespace("a-prod", func(ns *corev1.Namespace) {
		ns.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "a",
			UID: a.UID}}
	})
	for state, with := range map[string]func(*v1beta1.Tenant){
		"asked for": naming("prod"),
		"no longer asked": func(x *v1beta1.Tenant) {
			x.Status.Namespaces = []v1beta1.TenantNamespace{{Name: "a-prod", Reason: v1beta1.ReasonNamespaceConflict}}
		},
		"being deleted": func(x *v1beta1.Tenant) { naming("prod")(x); deleted(x) },
	} {
		if got := decide(observed(tenant("a", with), planted), "").disown; len(got) != 1 || got[0] != planted {
			t.Errorf("%s: disown = %v, want the listed namespace in conflict", state, namesOf(got))
		}
	}
	if len(p.steps) != 1 {
		t.Errorf("a claim became a step: %v", p.steps)
	}
}

func TestNamespaceMeta(t *testing.T) {
	if m := namespaceMeta(tenant("a", retaining), ""); m.owner != nil {
		t.Error("under Retain the namespace has an owner reference")
	}
	if m := namespaceMeta(tenant("a"), ""); m.owner == nil || !*m.owner.Controller {
		t.Error("under Delete the namespace has no controller reference")
	}
	if m := namespaceMeta(tenant("a"), ""); m.labels[labelPodSecurity] != "" {
		t.Error("a pod-security label is set without a level")
	}
}

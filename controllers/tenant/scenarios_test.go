// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// scenario is the initial state of a world with the Tenant a.
type scenario struct {
	objects []client.Object
	options func(*Options)
	// deny makes world.deny.
	deny func(*world) refusal
	// unseen is world.unseen for the first reconcile.
	unseen func(*world)
}

func (s scenario) with(o ...client.Object) scenario {
	s.objects = append(s.objects, o...)
	return s
}

// world returns a world in the state of the scenario.
func (s scenario) world(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, s.objects...)
	w.unseen = s.unseen
	if s.deny != nil {
		w.deny = s.deny(w)
	}
	if s.options != nil {
		s.options(&w.r.Options)
	}
	return w
}

// TestReconcileGolden records the operator's writes, reports and metrics until the Tenant is reconciled.
func TestReconcileGolden(t *testing.T) {
	reconcilertest.Golden(t, scenarios(), func(s scenario) string {
		w := s.world(t)
		w.settle()
		w.Series(w.r.metrics.added, w.r.metrics.removed, w.r.metrics.namespaces, w.r.metrics.ready)
		return w.Since(epoch)
	})
}

const always = -1

// refusing fails the first creations of that kind with an error of the API server.
func refusing(times int, kind string, reason error) func(*world) refusal {
	return func(*world) refusal {
		left := times
		return func(q reconcilertest.Request) error {
			creates := q.Verb == "create" || q.Verb == "apply" && q.Object.GetResourceVersion() == "1"
			if !creates || !strings.Contains(q.Name, " "+kind+" ") || left == 0 {
				return nil
			}
			left--
			return reason
		}
	}
}

// refusingRole returns refuseRole for a role.
func refusingRole(name string) func(*world) refusal {
	return func(*world) refusal { return refuseRole(name) }
}

// scenarios returns the scenarios by name. Golden files contain the names.
func scenarios() map[string]scenario {
	all := map[string]scenario{}
	for _, some := range []map[string]scenario{changesOfSpecs(), deletions(), driftAndClaims(), refusedWrites()} {
		maps.Copy(all, some)
	}
	return all
}

// Another Tenant names the same namespace. A former one of the name a was deleted, or restored from a backup.
var (
	sharing  = tenant("b", prefix("a-"))
	restored = tenant("a", former)
	previous = metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "a",
		UID: "uid-former"}
)

func unbound(p *provisioned) { p.bindings[0] = nil }

func changesOfSpecs() map[string]scenario {
	return map[string]scenario{
		"created":              {objects: []client.Object{tenant("a", fresh, naming("dev", "prod"), everyKindOfAdmin)}},
		"created under Retain": {objects: []client.Object{tenant("a", fresh, retaining)}},
		"created without a level": {objects: []client.Object{tenant("a", fresh)},
			options: func(o *Options) { o.PodSecurityLevel = "" }},
		"declared for another generation": {objects: []client.Object{tenant("a", declaring("a-dev"), next)}},
		"declared":                        {objects: []client.Object{tenant("a", declaring("a-dev"))}},
		"declared, and deleted, unseen": {objects: []client.Object{tenant("a", declaring("a-dev"))},
			unseen: func(w *world) { w.must(w.live.Delete(w.T.Context(), tenant("a"))) }},
		"nothing to do": {objects: provision(
			func(p *provisioned) { p.namespaces[0].Labels["example.com/x"] = "y" })},
		"a name is added": {objects: provision(nil, naming("dev", "prod"), next)},
		"an admin and a name are added": {objects: provision(
			func(p *provisioned) { naming("dev", "prod")(p.tenant); admins("ann", "bob")(p.tenant) }, next)},
		"a name is dropped": {objects: provision(nil, owning("a-old"), next)},
		"a name is dropped, unseen: it got its marks": {
			objects: provision(func(p *provisioned) { unbound(p); bare(p.namespaces[0]) },
				listing("a-old", v1beta1.ReasonPending)),
			unseen: func(w *world) { w.edit("a-old", ownedBy(tenant("a"))) }},
		"a name is dropped, Retain": {objects: provision(nil, owning("a-old"), retaining, next)},
		"a name is dropped without marks, Retain": {objects: provision(func(p *provisioned) {
			bare(p.namespaces[0])
		}, owning("a-old"), retaining, next)},
		"Retain is set": {objects: provision(
			func(p *provisioned) { retaining(p.tenant); p.tenant.Generation = 2 })},
		"Delete is set": {objects: provision(
			func(p *provisioned) { p.tenant.Spec.NamespaceDeletionPolicy = "Delete"; p.tenant.Generation = 2 }, retaining)},
		"admins change": {objects: provision(
			func(p *provisioned) { everyKindOfAdmin(p.tenant); p.tenant.Generation = 2 })},
	}
}

func deletions() map[string]scenario {
	unseen := func(change func(*corev1.Namespace)) func(*world) { return func(w *world) { w.edit("a-dev", change) } }
	return map[string]scenario{
		"deleted": {objects: provision(nil, owning("a-old"), deleted)},
		"deleted under Retain": {objects: provision(func(p *provisioned) { heldBack(p.bindings[0]) }, owning("a-old"),
			retaining, deleted)},
		"deleted under Retain, the binding is held at the last moment": {objects: provision(nil, retaining, deleted),
			deny: func(w *world) refusal {
				return func(q reconcilertest.Request) error {
					b := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
					if q.Name != "delete RoleBinding a-dev/"+adminBindingName || b == nil {
						return nil
					}
					heldBack(b)
					return w.live.Update(w.T.Context(), b)
				}
			}},
		"deleted under Retain, the binding is another Tenant's, unseen": {
			objects: append(provision(unbound, retaining, deleted), sharing),
			unseen:  func(w *world) { w.must(w.live.Create(w.T.Context(), binding("a-dev", sharing))) }},
		"deleted, unseen: it is terminating": {objects: provision(nil, deleted), unseen: func(w *world) {
			w.edit("a-dev", func(ns *corev1.Namespace) { heldBack(ns) })
			w.must(w.live.Delete(w.T.Context(), namespace("a-dev")))
		}},
		"deleted, unseen: it was made anew": {objects: provision(nil, deleted), unseen: func(w *world) {
			w.must(w.live.Delete(w.T.Context(), namespace("a-dev")))
			anew := namespace("a-dev", ownedBy(tenant("a")))
			anew.UID = "uid-anew"
			w.must(w.live.Create(w.T.Context(), anew))
		}},
		"deleted, unseen: it was given away": {objects: provision(nil, deleted), unseen: unseen(ownedBy(sharing))},
		"deleted, unseen: it was orphaned":   {objects: provision(nil, deleted), unseen: unseen(unowned)},
		"deleted with orphans":               {objects: provision(nil, deleted, orphaning)},
		"deleted, orphaned already": {objects: provision(
			func(p *provisioned) { unowned(p.namespaces[0]) }, deleted)},
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
		"deleted, the readers' role remains": {objects: provision(nil, deleted, retaining),
			deny: func(*world) refusal { return refuse("delete ClusterRole ", errors.New("no answer")) }},
		"deleted, a stranger's namespace has a binding under our name": {objects: []client.Object{
			tenant("a", deleted), namespace("a-dev"),
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a-dev", Name: adminBindingName,
				UID: "uid-stranger"}}}},
		"deleted, its names are refused by now": {objects: provision(nil, deleted),
			options: func(o *Options) { o.OperatorNamespace = "a-dev" }},
		"deleted, without our finalizer": {objects: []client.Object{tenant("a", deleted,
			func(t *v1beta1.Tenant) { t.Finalizers = []string{"example.com/another"} })}},
	}
}

func driftAndClaims() map[string]scenario {
	return map[string]scenario{
		"a stranger's namespaces": scenario{objects: []client.Object{tenant("a",
			naming("a", "b", "c", "d", "e", "f", "dev"))}}.with(
			namespace("a-a"), namespace("a-b"), namespace("a-c"), namespace("a-d"), namespace("a-e"), namespace("a-f"),
			namespace("a-dev", ownedBy(restored))),
		"others claim to be the Tenant's": scenario{objects: provision(nil)}.with(
			namespace("y", ownedBy(tenant("a"))), binding("elsewhere", tenant("a"))),
		"given away": scenario{objects: provision(
			func(p *provisioned) { ownedBy(sharing)(p.namespaces[0]) })}.with(sharing),
		"handed over": {objects: provision(
			func(p *provisioned) { p.namespaces[0].OwnerReferences = []metav1.OwnerReference{previous} })},
		"a predecessor's reference is left": {objects: provision(func(p *provisioned) {
			p.namespaces[0].OwnerReferences = append(p.namespaces[0].OwnerReferences, previous)
		})},
		"restored": {objects: provision(func(p *provisioned) {
			for _, o := range []client.Object{p.reader, p.readerBinding, p.bindings[0]} {
				o.SetOwnerReferences([]metav1.OwnerReference{previous})
				o.SetAnnotations(map[string]string{v1beta1.AnnotationTenantUID: "uid-former"})
			}
		})},
		"the namespace has drifted": {objects: provision(func(p *provisioned) {
			p.namespaces[0].Labels = map[string]string{"example.com/x": "y", labelPodSecurity: "privileged"}
		})},
		"the namespace is stricter": {objects: provision(func(p *provisioned) {
			p.namespaces[0].Labels[labelPodSecurity] = "restricted"
		})},
		"the readers' role is gone": {objects: provision(func(p *provisioned) { p.reader = nil })},
		"the binding has drifted": {objects: provision(func(p *provisioned) {
			drifted := &p.bindings[0].ObjectMeta
			drifted.Labels = nil
			drifted.OwnerReferences = append(stranger(), metav1.OwnerReference{Kind: "Thing", UID: "uid-thing"})
			p.bindings[0].Subjects = append(p.bindings[0].Subjects, user("mallory"))
		})},
		"the binding is gone": {objects: provision(unbound)},
		"the binding is gone, never right": {objects: provision(
			func(p *provisioned) { unbound(p); p.tenant.Status.Namespaces[0].Reason = v1beta1.ReasonPending })},
		"the namespace has drifted, unseen": {objects: provision(func(p *provisioned) { p.namespaces[0] = nil }),
			unseen: func(w *world) { w.must(w.live.Create(w.T.Context(), namespace("a-dev"))) }},
		"the binding is another Tenant's": scenario{objects: provision(
			func(p *provisioned) { p.bindings[0] = binding("a-dev", sharing) })}.with(sharing),
		"the readers' role has drifted": {objects: provision(func(p *provisioned) {
			p.reader.Rules[0].Verbs, p.readerBinding.Subjects = []string{"get", "update"}, nil
		})},
		"the readers' binding is to another role": {objects: provision(
			func(p *provisioned) { p.readerBinding.RoleRef = clusterRole("admin") })},
		"the readers' binding is a stranger's": {objects: provision(func(p *provisioned) {
			p.readerBinding.ObjectMeta = metav1.ObjectMeta{Name: p.readerBinding.Name, UID: "uid-stranger"}
			p.readerBinding.RoleRef = clusterRole("admin")
		})},
		"the namespace is gone": {objects: provision(func(p *provisioned) { p.namespaces[0], p.bindings[0] = nil, nil })},
	}
}

func refusedWrites() map[string]scenario {
	role := func(name string) func(*Options) { return func(o *Options) { o.AdminClusterRole = name } }
	view := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}
	return map[string]scenario{
		"stalled no more": {objects: provision(nil,
			having(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec, "a bad name"))},
		"names that are refused": {objects: provision(nil, naming("dev", "Bad"), owning("a-own")),
			options: func(o *Options) { o.OperatorNamespace = "a-dev" }},
		"another role": {objects: append(provision(nil), view), options: role("view")},
		"another role, not held": {objects: append(
			provision(func(p *provisioned) { p.bindings[0].Subjects = append(p.bindings[0].Subjects, user("mallory")) }), view),
			options: role("view"), deny: refusingRole("view")},
		"another role, not there": {objects: provision(nil), options: role("view")},
		"changed meanwhile":       {objects: provision(unbound), deny: refusing(1, "RoleBinding", changed())},
		"a policy goes on refusing": {objects: []client.Object{tenant("a", next, having(v1beta1.ConditionReady,
			metav1.ConditionFalse, v1beta1.ReasonAdmissionDenied, `namespaces "a-dev" is forbidden: violates "x" by 100%`))},
			deny: refusing(always, "Namespace", forbidden("namespaces", `violates "x" by 100%`))},
		"a quota refuses": {objects: []client.Object{tenant("a")},
			deny: refusing(always, "RoleBinding",
				forbidden("rolebindings", "exceeded quota: small, requested: count/rolebindings=1"))},
		"the authorizer refuses": {objects: []client.Object{tenant("a")},
			deny: refusing(always, "Namespace", forbidden("namespaces", `User "op" cannot create resource "namespaces"`))},
		"the namespace is terminating": {objects: provision(unbound),
			deny: refusing(always, "RoleBinding",
				forbidden("rolebindings", "unable to create new content",
					metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}))},
	}
}

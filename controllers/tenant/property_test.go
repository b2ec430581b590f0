// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
)

// stored is the initial state of one namespace.
type stored struct {
	name, mark, label, controller, recorded, binding string
	cached                                           string
	terminating                                      bool
}

// owned reports, independent of the code under test, whether the Tenant owns the namespace.
func (s stored) owned(inSpec bool) bool {
	listed := inSpec || s.recorded != "no"
	switch {
	case s.controller == "stranger", s.mark == "other", s.mark == "dead":
		return false
	case s.mark == "self":
		return listed || s.recorded == "this"
	default:
		return s.recorded == "this"
	}
}

// uids are those of the generated annotations. The Tenant b exists and its spec names
// a-dev; no Tenant ever had the UID of "dead".
var uids = map[string]types.UID{"self": "uid-a", "other": "uid-b", "dead": "uid-dead"}

func drawStored(t *rapid.T, name string) stored {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name+" "+what) }
	return stored{
		name: name, mark: pick("mark", "none", "self", "other", "dead"), label: pick("label", "", "a", "b"),
		controller:  pick("controller", "none", "self", "predecessor", "stranger"),
		recorded:    pick("recorded", "no", "name", "this", "another"),
		binding:     pick("binding", "none", "right", "bare", "dead", "other", "stranger", "held"),
		terminating: rapid.IntRange(0, 4).Draw(t, name+" terminating") == 0,
		cached:      pick("cached", "fresh", "unmarked", "absent"),
	}
}

func (s stored) namespace() *corev1.Namespace {
	ns := namespace(s.name)
	if s.mark != "none" {
		ns.Annotations = map[string]string{v1beta1.AnnotationTenantUID: string(uids[s.mark])}
	}
	if s.label != "" {
		ns.Labels = map[string]string{v1beta1.LabelTenant: s.label}
	}
	if s.terminating {
		terminating(ns)
		heldBack(ns)
	}
	switch s.controller {
	case "self":
		ns.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(tenant("a"), tenantKind)}
	case "predecessor":
		ns.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(tenant("a",
			func(x *v1beta1.Tenant) { x.UID = "uid-dead" }), tenantKind)}
	case "stranger":
		ns.OwnerReferences = stranger()
	}
	return ns
}

// reserved returns a binding under the reserved name that grants rights to mallory.
func (s stored) reserved() *rbacv1.RoleBinding {
	b := binding(s.name, tenant("a"), "mallory")
	switch s.binding {
	case "none":
		return nil
	case "bare":
		b.Annotations, b.OwnerReferences = nil, nil
	case "dead", "other":
		b.Annotations, b.OwnerReferences = map[string]string{v1beta1.AnnotationTenantUID: string(uids[s.binding])}, nil
	case "stranger":
		b.OwnerReferences = stranger()
	case "held":
		heldBack(b)
	}
	return b
}

// scene is a world with namespaces in generated states.
type scene struct {
	*world
	namespaces []stored
	inSpec     map[string]bool
	foreign    map[string]stored
	tenant     *v1beta1.Tenant
}

func drawScene(t *testing.T, rt *rapid.T) *scene {
	t.Helper()
	s := &scene{inSpec: map[string]bool{}, foreign: map[string]stored{}}
	suffixes := rapid.SliceOfNDistinct(rapid.SampledFrom([]v1beta1.NamespaceSuffix{"dev", "prod", "Bad"}), 1, 3, rapid.ID).
		Draw(rt, "suffixes")
	s.tenant = tenant("a", naming(suffixes...))
	if rapid.Bool().Draw(rt, "retain") {
		retaining(s.tenant)
	}
	deletingNow := rapid.Bool().Draw(rt, "deleting")
	if deletingNow {
		deleted(s.tenant)
		if rapid.IntRange(0, 3).Draw(rt, "orphan") == 0 {
			orphaning(s.tenant)
		}
	}
	for _, suffix := range suffixes {
		s.inSpec["a-"+string(suffix)] = true
	}
	other := tenant("b", prefix("a-"))
	objects := []client.Object{other}
	for _, name := range []string{"a-dev", "a-prod", "a-old", "x"} {
		if rapid.IntRange(0, 3).Draw(rt, name+" absent") == 0 {
			continue
		}
		ns := drawStored(rt, name)
		if name == "x" {
			ns.recorded = "no"
		}
		s.namespaces = append(s.namespaces, ns)
		if recorded, ok := map[string]types.UID{"name": "", "this": types.UID("uid-" + name),
			"another": "uid-another"}[ns.recorded]; ok {
			s.tenant.Status.Namespaces = append(s.tenant.Status.Namespaces,
				v1beta1.TenantNamespace{Name: name, UID: recorded, Reason: v1beta1.ReasonPending})
		}
		if !ns.owned(s.inSpec[name]) {
			s.foreign[name] = ns
		}
		early := ns.namespace() // before the last change of its metadata
		if ns.cached == "unmarked" {
			bare(early)
		}
		objects = append(objects, early)
		if b := ns.reserved(); b != nil {
			objects = append(objects, b)
		}
	}
	s.world = newWorld(t, append(objects, s.tenant)...)
	s.settle(func(ns stored) bool { return ns.cached == "fresh" })
	s.sync() // the cache does not show what follows
	s.settle(func(ns stored) bool { return ns.cached != "fresh" })
	for _, ns := range s.namespaces {
		if ns.cached == "absent" && !ns.terminating {
			s.must(s.cache.Delete(t.Context(), namespace(ns.name)))
		}
	}
	return s
}

// settle writes the generated metadata of namespaces.
func (s *scene) settle(which func(stored) bool) {
	s.T.Helper()
	for _, was := range s.namespaces {
		if !which(was) {
			continue
		}
		live, want := find[corev1.Namespace](s.world, "", was.name), was.namespace()
		live.Labels, live.Annotations, live.OwnerReferences = want.Labels, want.Annotations, want.OwnerReferences
		s.must(s.live.Update(s.T.Context(), live))
	}
}

// TestNoForeignNamespaceIsHarmed checks generated claims, statuses and stale caches. The
// operator never deletes or binds a namespace that the Tenant does not own. A released
// namespace has no binding under the reserved name.
func TestNoForeignNamespaceIsHarmed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScene(t, rt)
		caughtUp := rapid.IntRange(0, 4).Draw(rt, "caught up after")
		for round := range 8 {
			if _, err := s.reconcile(); err != nil {
				rt.Logf("reconcile %d: %v", round, err)
			}
			s.check(rt)
			s.syncTenants()
			if round >= caughtUp {
				s.sync()
			}
		}
		s.checkRest(rt)
	})
}

func (s *scene) released() bool {
	t := find[v1beta1.Tenant](s.world, "", "a")
	return t == nil || !controllerutil.ContainsFinalizer(t, v1beta1.TenantFinalizer)
}

// check tests the invariants that hold after each reconcile.
func (s *scene) check(rt *rapid.T) {
	for name, was := range s.foreign {
		ns := find[corev1.Namespace](s.world, "", name)
		if ns == nil || ns.UID != types.UID("uid-"+name) || ns.DeletionTimestamp.IsZero() == was.terminating {
			rt.Fatalf("foreign namespace %s was deleted: %+v", name, was)
		}
		if b := find[rbacv1.RoleBinding](s.world, name, adminBindingName); b != nil &&
			(was.binding == "none" || b.UID != binding(name, s.tenant).UID) {
			rt.Fatalf("foreign namespace %s was bound: %+v", name, was)
		}
	}
	for _, was := range s.namespaces {
		_, foreign := s.foreign[was.name]
		if s.released() && !foreign && find[corev1.Namespace](s.world, "", was.name) != nil &&
			find[rbacv1.RoleBinding](s.world, was.name, adminBindingName) != nil {
			rt.Fatalf("namespace %s was released with a right under the reserved name: %+v", was.name, was)
		}
	}
}

// checkRest tests the invariants that hold after the last reconcile with a fresh cache.
func (s *scene) checkRest(rt *rapid.T) {
	if s.released() {
		return
	}
	t := find[v1beta1.Tenant](s.world, "", "a")
	waits := !t.DeletionTimestamp.IsZero()
	for _, was := range s.namespaces {
		if _, foreign := s.foreign[was.name]; foreign {
			continue
		}
		waits = waits && !was.terminating
		b := find[rbacv1.RoleBinding](s.world, was.name, adminBindingName)
		if b != nil && find[corev1.Namespace](s.world, "", was.name) != nil && s.inSpec[was.name] && slices.ContainsFunc(b.Subjects, func(x rbacv1.Subject) bool { return x.Name == "mallory" }) {
			rt.Fatalf("mallory is no admin and keeps a right in %s: %+v", was.name, was)
		}
	}
	if waits {
		rt.Fatalf("the Tenant is not released, though nothing is left to wait for: %s", fmt.Sprint(t.Status.Conditions))
	}
}

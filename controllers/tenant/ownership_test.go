package tenant

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

// TestOwnsTruthTable checks every combination of an object's metadata and the recorded
// status. The rows that mean ownership are listed; every other row must not.
func TestOwnsTruthTable(t *testing.T) {
	type row struct {
		mark, controller string // none | self | other | former
		listed           bool
		recorded         string // none | this | another
	}
	ours := map[row]bool{}
	for _, controller := range []string{"none", "self", "former"} {
		// own annotation and listed, for every recorded UID
		for _, recorded := range []string{"none", "this", "another"} {
			ours[row{"self", controller, true, recorded}] = true
		}
		// no annotation, or own annotation but not listed, and recorded
		for _, listed := range []bool{true, false} {
			ours[row{"none", controller, listed, "this"}] = true
		}
		ours[row{"self", controller, false, "this"}] = true
	}
	a, uid := tenant("a"), map[string]types.UID{"none": "", "self": "uid-a", "other": "uid-b", "this": "uid-x", "another": "uid-y"}
	controllers := map[string][]metav1.OwnerReference{"none": nil, "self": {*metav1.NewControllerRef(a, tenantKind)},
		"other": stranger(), "former": {*metav1.NewControllerRef(restored, tenantKind)}}
	rows := 0
	for _, mark := range []string{"none", "self", "other"} {
		for controller, owners := range controllers {
			for _, listed := range []bool{true, false} {
				for _, recorded := range []string{"none", "this", "another"} {
					rows++
					r := row{mark, controller, listed, recorded}
					o := namespace("x")
					o.OwnerReferences, o.Annotations = owners, map[string]string{v1beta1.AnnotationTenantUID: string(uid[mark])}
					if got := owns(a, o, listed, uid[recorded]); got != ours[r] {
						t.Errorf("%+v: owns = %v, want %v", r, got, ours[r])
					}
				}
			}
		}
	}
	if rows != 72 || len(ours) != 18 {
		t.Fatalf("the table has %d rows, and %d are ours; want 72 and 18", rows, len(ours))
	}
}

func TestOwnsNeedsUIDs(t *testing.T) {
	if owns(&v1beta1.Tenant{}, namespace("x"), true, "uid-x") {
		t.Error("a Tenant without a UID owns nothing")
	}
	if owns(tenant("a"), &corev1.Namespace{}, true, "") {
		t.Error("an object without a UID has no owner")
	}
}

// A restored reader of a predecessor is the Tenant's, unless another object controls it.
func TestOwnsReader(t *testing.T) {
	a := tenant("a")
	controlledBy := func(x *v1beta1.Tenant, owners []metav1.OwnerReference) *corev1.Namespace {
		return namespace("x", ownedBy(x), func(ns *corev1.Namespace) { ns.OwnerReferences = owners })
	}
	for name, tc := range map[string]struct {
		child *corev1.Namespace
		want  bool
	}{
		"its own":                              {controlledBy(a, nil), true},
		"a predecessor's":                      {controlledBy(restored, []metav1.OwnerReference{previous}), true},
		"a predecessor's, controlled by other": {controlledBy(restored, stranger()), false},
		"another Tenant's":                     {controlledBy(tenant("b"), nil), false},
		"nobody's":                             {namespace("x"), false},
	} {
		if got := ownsReader(a, tc.child); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestClaimedTenantsIgnoresOtherGroups(t *testing.T) {
	o := &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "capsule.example.com/v1", Kind: "Tenant", Name: "a", UID: "x"},
		{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "a", UID: "y"},
	}}
	if got := fmt.Sprint(claimedTenants(o)); got != "[y]" {
		t.Errorf("claimedTenants = %s, want [y]: kind Tenant is used by other projects too", got)
	}
}

// Each part of the ownership metadata is corrected, also what ownership does not depend on.
func TestIsSetOnComparesEachPart(t *testing.T) {
	a := tenant("a")
	want := namespaceMeta(a, "a-dev", "baseline")
	complete := func() *corev1.Namespace {
		return namespace("a-dev", ownedBy(a), func(ns *corev1.Namespace) {
			ns.Labels["team"], ns.Annotations["note"] = "x", "y"
			ns.OwnerReferences = append(ns.OwnerReferences, metav1.OwnerReference{Kind: "Thing", UID: "z"})
		})
	}
	if !hasMeta(complete(), want) {
		t.Fatalf("not set on %+v", complete().ObjectMeta)
	}
	changes := map[string]func(*corev1.Namespace){
		"no reference":             func(ns *corev1.Namespace) { ns.OwnerReferences = ns.OwnerReferences[1:] },
		"reference, API version":   func(ns *corev1.Namespace) { ns.OwnerReferences[0].APIVersion = "leasehold.dev/v0" },
		"reference, kind":          func(ns *corev1.Namespace) { ns.OwnerReferences[0].Kind = "Lodger" },
		"reference, name":          func(ns *corev1.Namespace) { ns.OwnerReferences[0].Name = "b" },
		"reference, UID":           func(ns *corev1.Namespace) { ns.OwnerReferences[0].UID = "uid-b" },
		"reference, no controller": func(ns *corev1.Namespace) { ns.OwnerReferences[0].Controller = nil },
		"reference, not blocking":  func(ns *corev1.Namespace) { ns.OwnerReferences[0].BlockOwnerDeletion = nil },
	}
	for key := range want.Labels {
		changes["label "+key] = func(ns *corev1.Namespace) { ns.Labels[key] = "other" }
	}
	for key := range want.Annotations {
		changes["annotation "+key] = func(ns *corev1.Namespace) { delete(ns.Annotations, key) }
	}
	for name, change := range changes {
		ns := complete()
		change(ns)
		if hasMeta(ns, want) {
			t.Errorf("%s: the change is not detected", name)
		}
	}
}

// A released namespace loses only the Tenant's ownership metadata and references to
// predecessors. The garbage collector would delete it for a reference to a deleted owner.
func TestRemoveOwnershipMeta(t *testing.T) {
	a := tenant("a")
	ref := func(name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: tenantKind.GroupVersion().String(), Kind: "Tenant", Name: name, UID: uid}
	}
	ours, predecessors, others := ref("a", a.UID), ref("a", "uid-former"), ref("b", "uid-b")
	another := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "uid-stranger"}
	of := func(labels, annotations map[string]string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "a-dev", UID: "uid-a-dev", Labels: labels, Annotations: annotations,
			OwnerReferences: owners}
	}
	label := func(value string) map[string]string { return map[string]string{v1beta1.LabelTenant: value, "x": "y"} }
	manager := func(value string) map[string]string {
		return map[string]string{v1beta1.LabelManagedBy: value, "x": "y"}
	}
	mark := func(value string) map[string]string {
		return map[string]string{v1beta1.AnnotationTenantUID: value, "x": "y"}
	}
	rest := map[string]string{"x": "y"}
	for name, tc := range map[string]struct{ before, after metav1.ObjectMeta }{
		"nothing": {of(nil, nil), of(nil, nil)},
		"all marks": {namespace("a-dev", ownedBy(a)).ObjectMeta,
			of(map[string]string{labelPodSecurity: "baseline"}, map[string]string{})},
		"some owner references": {of(nil, nil, another, predecessors, others, ours), of(nil, nil, another, others)},
		"a predecessor's":       {of(nil, nil, predecessors), of(nil, nil)},
		"others' only":          {of(nil, nil, another, others), of(nil, nil, another, others)},
		"the label":             {of(label("a"), nil), of(rest, nil)},
		"another's label":       {of(label("b"), nil), of(label("b"), nil)},
		"the manager":           {of(manager(v1beta1.ManagedByValue), nil), of(rest, nil)},
		"another manager":       {of(manager("helm"), nil), of(manager("helm"), nil)},
		"the mark":              {of(nil, mark("uid-a")), of(nil, rest)},
		"another's mark":        {of(nil, mark("uid-b")), of(nil, mark("uid-b"))},
	} {
		ns := &corev1.Namespace{ObjectMeta: *tc.before.DeepCopy()}
		had, want := removeOwnershipMeta(a, ns), !equality.Semantic.DeepEqual(tc.before, tc.after)
		if diff := cmp.Diff(tc.after, ns.ObjectMeta, cmpopts.EquateEmpty()); diff != "" || had != want {
			t.Errorf("%s: changed %t, want %t; metadata (-want +got):\n%s", name, had, want, diff)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

// TestOwnsTruthTable checks every combination of an object's metadata and the recorded
// status. The rows that mean ownership are listed; every other row must not.
func TestOwnsTruthTable(t *testing.T) {
	type row struct {
		mark, controller string // none | self | other | former
		recorded         string // none | this | another
	}
	ours := map[row]bool{}
	for _, controller := range []string{"none", "self", "former"} {
		// own annotation, for every recorded UID
		for _, recorded := range []string{"none", "this", "another"} {
			ours[row{"self", controller, recorded}] = true
		}
		// no annotation, and recorded
		ours[row{"none", controller, "this"}] = true
	}
	a, uid := tenant("a"), map[string]types.UID{"none": "", "self": "uid-a", "other": "uid-b", "this": "uid-x", "another": "uid-y"}
	controllers := map[string][]metav1.OwnerReference{"none": nil, "self": {*metav1.NewControllerRef(a, tenantKind)},
		"other": stranger(), "former": {*metav1.NewControllerRef(restored, tenantKind)}}
	rows := 0
	for _, mark := range []string{"none", "self", "other"} {
		for controller, owners := range controllers {
			for _, recorded := range []string{"none", "this", "another"} {
				rows++
				r := row{mark, controller, recorded}
				o := namespace("x")
				o.OwnerReferences, o.Annotations = owners, map[string]string{v1beta1.AnnotationTenantUID: string(uid[mark])}
				if got := owns(a, o, uid[recorded]); got != ours[r] {
					t.Errorf("%+v: owns = %v, want %v", r, got, ours[r])
				}
			}
		}
	}
	if rows != 36 || len(ours) != 12 {
		t.Fatalf("the table has %d rows, and %d are ours; want 36 and 12", rows, len(ours))
	}
}

func TestOwnsNeedsUIDs(t *testing.T) {
	if owns(&v1beta1.Tenant{}, namespace("x"), "uid-x") {
		t.Error("a Tenant without a UID owns nothing")
	}
	if owns(tenant("a"), &corev1.Namespace{}, "") {
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

// Each part of the ownership metadata is corrected and named, also what ownership does not depend on.
func TestDriftNamesEachPart(t *testing.T) {
	want := namespaceMeta(tenant("a"), "a-dev", "baseline")
	changes := map[string]func(*corev1.Namespace){
		"no reference":             func(ns *corev1.Namespace) { ns.OwnerReferences = ns.OwnerReferences[1:] },
		"reference, API version":   func(ns *corev1.Namespace) { ns.OwnerReferences[0].APIVersion = "leasehold.dev/v0" },
		"reference, name":          func(ns *corev1.Namespace) { ns.OwnerReferences[0].Name = "b" },
		"reference, no controller": func(ns *corev1.Namespace) { ns.OwnerReferences[0].Controller = nil },
		"reference, not blocking":  func(ns *corev1.Namespace) { ns.OwnerReferences[0].BlockOwnerDeletion = nil },
	}
	for key := range want.Labels {
		changes["label "+key] = func(ns *corev1.Namespace) { ns.Labels[key] = "other" }
	}
	for key := range want.Annotations {
		changes["annotation "+key] = func(ns *corev1.Namespace) { delete(ns.Annotations, key) }
	}
	changes["nothing"] = func(*corev1.Namespace) {}
	for name, change := range changes {
		ns := namespace("a-dev", ownedBy(tenant("a")), func(ns *corev1.Namespace) {
			ns.Labels["team"], ns.Annotations["note"] = "x", "y"
			ns.OwnerReferences = append(ns.OwnerReferences, metav1.OwnerReference{Kind: "Thing", UID: "z"})
		})
		change(ns)
		named := "the owner reference to Tenant a"
		for _, kind := range []string{"label ", "annotation "} {
			if strings.HasPrefix(name, kind) {
				named = name + " was "
			}
		}
		if got := drift(ns, want); len(got) != 1 && name != "nothing" || len(got) > 0 && !strings.HasPrefix(got[0], named) {
			t.Errorf("%s: drift %q, want %q", name, got, named)
		}
	}
}

// A stricter Pod security level than the flag's stays, and any other is corrected.
func TestStricterLevel(t *testing.T) {
	for _, tc := range [][3]string{ // flag, live, kept
		{"", "", ""}, {"", "privileged", ""}, {"", "restricted", ""},
		{"privileged", "", "privileged"}, {"privileged", "privileged", "privileged"}, {"privileged", "baseline", "baseline"},
		{"baseline", "", "baseline"}, {"baseline", "privileged", "baseline"}, {"baseline", "baseline", "baseline"},
		{"baseline", "restricted", "restricted"}, {"baseline", "other", "baseline"},
		{"restricted", "privileged", "restricted"}, {"restricted", "baseline", "restricted"}, {"restricted", "restricted", "restricted"},
	} {
		ns := namespace("a-dev", func(ns *corev1.Namespace) { ns.Labels = map[string]string{labelPodSecurity: tc[1]} })
		if got := stricterLevel(tc[0], ns); got != tc[2] {
			t.Errorf("flag %q and level %q: %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}

// A released namespace loses only the Tenant's ownership metadata and references to
// predecessors. The garbage collector would delete it for a reference to a deleted owner.
func TestRemoveOwnershipMeta(t *testing.T) {
	a, b := tenant("a"), tenant("b")
	others := *metav1.NewControllerRef(b, tenantKind)
	level := map[string]string{labelPodSecurity: "baseline"}
	former := childMeta(restored, "", "")
	capsule := []metav1.OwnerReference{{APIVersion: "capsule.clastix.io/v1beta2", Kind: "Tenant", Name: "a", UID: "c"}}
	for name, tc := range map[string]struct {
		before, after metav1.ObjectMeta
		had           bool
	}{
		"nothing": {},
		"all":     {namespaceMeta(a, "", "baseline"), metav1.ObjectMeta{Labels: level}, true},
		"another Tenant's": {namespaceMeta(b, "", "baseline"), metav1.ObjectMeta{Annotations: childMeta(b, "", "").Annotations,
			Labels:          map[string]string{labelPodSecurity: "baseline", v1beta1.LabelTenant: "b"},
			OwnerReferences: []metav1.OwnerReference{others}}, true},
		"a predecessor's": {former, metav1.ObjectMeta{Annotations: former.Annotations}, true},
		"some owner references": {metav1.ObjectMeta{OwnerReferences: append(stranger(), others, previous)},
			metav1.ObjectMeta{OwnerReferences: append(stranger(), others)}, true},
		"a Tenant's of another API group": {metav1.ObjectMeta{OwnerReferences: capsule},
			metav1.ObjectMeta{OwnerReferences: capsule}, false},
		"others' labels": {metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelManagedBy: "helm", "x": ""}},
			metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelManagedBy: "helm", "x": ""}}, false},
	} {
		ns := &corev1.Namespace{ObjectMeta: *tc.before.DeepCopy()}
		had := removeOwnershipMeta(a, ns)
		if diff := cmp.Diff(tc.after, ns.ObjectMeta, cmpopts.EquateEmpty()); diff != "" || had != tc.had {
			t.Errorf("%s: changed %t, want %t; metadata (-want +got):\n%s", name, had, tc.had, diff)
		}
	}
}

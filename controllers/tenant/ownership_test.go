package tenant

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

// TestOwnsTruthTable checks every combination of an object's metadata and the recorded
// status. The rows that mean ownership are listed; every other row must not.
func TestOwnsTruthTable(t *testing.T) {
	const self, other, object = types.UID("tenant"), types.UID("other"), types.UID("object")
	type row struct {
		mark, controller string // none | self | other
		listed           bool
		recorded         string // none | this | another
	}
	ours := map[row]bool{}
	for _, controller := range []string{"none", "self"} {
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
	uid := map[string]types.UID{"none": "", "self": self, "other": other, "this": object, "another": "another"}
	rows := 0
	for _, mark := range []string{"none", "self", "other"} {
		for _, controller := range []string{"none", "self", "other"} {
			for _, listed := range []bool{true, false} {
				for _, recorded := range []string{"none", "this", "another"} {
					rows++
					r := row{mark, controller, listed, recorded}
					got := owns(self, claims{uid[mark], uid[controller], object, listed, uid[recorded]})
					if got != ours[r] {
						t.Errorf("%+v: owns = %v, want %v", r, got, ours[r])
					}
				}
			}
		}
	}
	if rows != 54 || len(ours) != 12 {
		t.Fatalf("the table has %d rows of which %d are ours; want 54 and 12", rows, len(ours))
	}
}

func TestOwnsNeedsUIDs(t *testing.T) {
	if owns("", claims{annotationUID: "", objectUID: "o", listed: true, recordedUID: "o"}) {
		t.Error("a Tenant without a UID owns nothing")
	}
	if owns("t", claims{annotationUID: "t", listed: true}) {
		t.Error("an object without a UID has no owner")
	}
}

func TestOwnsBinding(t *testing.T) {
	tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}}
	stranger := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid-b"}}
	controlled := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(stranger,
		tenantKind)}}
	marked := func(uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Annotations: map[string]string{v1beta1.AnnotationTenantUID: uid}}
	}
	for name, tc := range map[string]struct {
		meta         metav1.ObjectMeta
		otherTenants map[types.UID]bool
		want         bool
	}{
		"stripped of all marks":                   {metav1.ObjectMeta{}, nil, true},
		"marked ours":                             {marked("uid-a"), nil, true},
		"forged mark":                             {marked("x"), nil, true},
		"mark of a Tenant without a part in it":   {marked("uid-b"), map[types.UID]bool{"uid-c": true}, true},
		"mark of a Tenant that is gone":           {marked("uid-b"), map[types.UID]bool{"uid-b": false}, true},
		"mark of a living holder":                 {marked("uid-b"), map[types.UID]bool{"uid-b": true}, false},
		"controlled by an object of another kind": {controlled, nil, true},
		"controlled by a Tenant that is gone":     {controlled, map[types.UID]bool{"uid-b": false}, true},
		"controlled by a living holder":           {controlled, map[types.UID]bool{"uid-b": true}, false},
		"holder, not the Tenant, has a right":     {marked("uid-a"), map[types.UID]bool{"uid-b": true}, true},
	} {
		tc.meta.UID = "uid-binding"
		if got := ownsBinding(tenant, &tc.meta, tc.otherTenants); got != tc.want {
			t.Errorf("%s: ownsBinding = %v, want %v", name, got, tc.want)
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
	want := namespaceMeta(a, "baseline")
	complete := func() *corev1.Namespace {
		return namespace("a-dev", ownedBy(a), func(ns *corev1.Namespace) {
			ns.Labels["team"], ns.Annotations["note"] = "x", "y"
			ns.OwnerReferences = append(ns.OwnerReferences, metav1.OwnerReference{Kind: "Thing", UID: "z"})
		})
	}
	if !want.isSetOn(complete()) {
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
	for key := range want.labels {
		changes["label "+key] = func(ns *corev1.Namespace) { ns.Labels[key] = "other" }
	}
	for key := range want.annotations {
		changes["annotation "+key] = func(ns *corev1.Namespace) { delete(ns.Annotations, key) }
	}
	for name, change := range changes {
		ns := complete()
		change(ns)
		if want.isSetOn(ns) {
			t.Errorf("%s: the change is not noticed", name)
		}
	}
}

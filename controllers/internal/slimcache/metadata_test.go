package slimcache_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/slimcache"
)

func trim(t *testing.T, ns *corev1.Namespace) {
	t.Helper()
	for range 2 { // a reflector transforms streamed objects twice
		if _, err := slimcache.Trim(ns); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrim(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{v1beta1.LabelTenant: "a", v1beta1.LabelManagedBy: v1beta1.ManagedByValue,
			"pod-security.kubernetes.io/enforce": "baseline"},
		Annotations:     map[string]string{v1beta1.AnnotationTenantUID: long, "example.com/a": long},
		Finalizers:      []string{"example.com/f"},
		OwnerReferences: []metav1.OwnerReference{{Name: "other"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	for i := range 1000 {
		ns.Labels[fmt.Sprintf("leasehold.dev/%d", i)] = "x"
	}
	trim(t, ns)
	if len(ns.Labels) != 4 || ns.Labels[v1beta1.LabelTenant] != "a" ||
		ns.Labels["pod-security.kubernetes.io/enforce"] != "baseline" {
		t.Errorf("labels %v, want ours and what stands for the others", ns.Labels)
	}
	if got := ns.Annotations[v1beta1.AnnotationTenantUID]; len(got) != 256 || len(ns.Annotations) != 2 {
		t.Errorf("%d annotations, a UID of %d bytes; want 2, cut to 256", len(ns.Annotations), len(got))
	}
	if out, err := slimcache.Trim(cache.DeletedFinalStateUnknown{Key: "a"}); err != nil || out == nil {
		t.Errorf("a tombstone becomes %v, %v", out, err)
	}
	if len(ns.Finalizers) != 1 || len(ns.OwnerReferences) != 1 || ns.ManagedFields != nil {
		t.Errorf("finalizers %v and owners %v must be whole, managed fields %v none", ns.Finalizers, ns.OwnerReferences,
			ns.ManagedFields)
	}
}

// A merge patch that is computed from trimmed objects must keep what was trimmed.
func TestPatchKeepsTrimmedEntries(t *testing.T) {
	for reason, others := range map[string]map[string]string{"with others": {"example.com/a": "b"}, "with ours only": {}} {
		t.Run(reason, func(t *testing.T) {
			before := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", ResourceVersion: "1",
				Labels:      map[string]string{v1beta1.LabelTenant: "a"},
				Annotations: map[string]string{v1beta1.AnnotationTenantUID: "u"}}}
			for key, value := range others {
				before.Labels[key], before.Annotations[key] = value, value
			}
			trim(t, before)
			after := before.DeepCopy()
			delete(after.Labels, v1beta1.LabelTenant)
			delete(after.Annotations, v1beta1.AnnotationTenantUID)
			patch, err := client.MergeFrom(before).Data(after)
			if err != nil {
				t.Fatal(err)
			}
			removesAll := strings.Contains(string(patch), `"labels":null`) ||
				strings.Contains(string(patch), `"annotations":null`)
			if removesAll != (len(others) == 0) {
				t.Errorf("the patch is %s", patch)
			}
		})
	}
}

// Of many references the relevant ones are kept: the first 16 to kinds of this operator, and the
// controller at any position.
func TestOwnersAreBounded(t *testing.T) {
	const most = 16
	long, short := strings.Repeat("x", 300), strings.Repeat("x", 256)
	ours := func(i int) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "t",
			UID: types.UID(fmt.Sprint("ours-", i))}
	}
	others := func(i int, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: types.UID(fmt.Sprint("others-", i)),
			Controller: controller}
	}
	many := func(n int, ref func(int) metav1.OwnerReference) []metav1.OwnerReference {
		var refs []metav1.OwnerReference
		for i := range n {
			refs = append(refs, ref(i))
		}
		return refs
	}
	no, yes := new(false), new(true)
	for name, tc := range map[string]struct{ refs, want []metav1.OwnerReference }{
		"none":                           {nil, nil},
		"others' only":                   {many(most+1, func(i int) metav1.OwnerReference { return others(i, nil) }), nil},
		"others' with controller: false": {many(most+1, func(i int) metav1.OwnerReference { return others(i, no) }), nil},
		"as many of ours as are kept":    {many(most, ours), many(most, ours)},
		"one more":                       {many(most+1, ours), many(most, ours)},
		"ours after others": {append(many(most, func(i int) metav1.OwnerReference { return others(i, nil) }),
			ours(1)), many(2, ours)[1:]},
		"a controller with long texts": {
			[]metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: types.UID(long), Controller: yes}},
			[]metav1.OwnerReference{{APIVersion: short, Kind: short, Name: short, UID: types.UID(short), Controller: yes}}},
		"another's controller among ours": {append(many(most+1, ours), others(1, yes)),
			append(many(most, ours), others(1, yes))},
		"one of ours with controller: false": {append(many(most, ours),
			func() metav1.OwnerReference { r := ours(99); r.Controller = no; return r }()),
			many(most, ours)},
	} {
		got := slimcache.Owners(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.refs}})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFinalizersAreBounded(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 15: 15, 16: 16, 17: 16, 1000: 16} {
		o := &corev1.ConfigMap{}
		for i := range n {
			o.Finalizers = append(o.Finalizers, fmt.Sprint("example.com/", i))
		}
		if got := slimcache.Finalizers(o); len(got) != want || want > 0 && got[want-1] != o.Finalizers[want-1] {
			t.Errorf("of %d finalizers %q are kept, want the first %d", n, got, want)
		}
	}
}

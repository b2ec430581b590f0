package tenant

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// The cache stores the metadata of all roles and bindings. Of those under reserved names
// it also stores the rules and subjects that a reconcile compares.
func TestCacheDropsContentsOfOtherObjects(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"example.com/a": long, v1beta1.AnnotationTenantUID: "uid"},
			Finalizers:  slices.Repeat([]string{"example.com/" + long}, 100),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "a",
				UID: "uid"}, {Name: long}}}
	}
	subjects := slices.Repeat([]rbacv1.Subject{{Kind: "User", Name: long}}, 4)
	rules := []rbacv1.PolicyRule{{ResourceNames: []string{long}}}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta("other"), Rules: rules, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": long}}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta("other"), Subjects: subjects, RoleRef: rbacv1.RoleRef{Name: long}},
	} {
		kept := slim(t, object)
		text, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 8<<10 {
			t.Errorf("%T has %d bytes in the cache, want at most 8 KiB", object, len(text))
		}
		if !claimsTenant("uid", kept) || len(kept.GetFinalizers()) == 0 {
			t.Errorf("%T: the cache lost owner references or finalizers: %v", object, kept)
		}
	}
	if role := slim(t, &rbacv1.ClusterRole{ObjectMeta: meta(readerNamePrefix + "a"), Rules: rules}); len(role.Rules) != 1 {
		t.Error("the cache lost the rules of the readers' role")
	}
	if b := slim(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta(readerNamePrefix + "a"),
		Subjects: subjects}); len(b.Subjects) != 4 {
		t.Error("the cache lost the subjects of the readers' binding")
	}
}

// A binding of the reserved name has a bounded size in the cache, in any namespace, and still differs
// from what each Tenant can have.
func TestCacheBoundsReservedBindings(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	full := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: adminBindingName,
		Labels:     map[string]string{v1beta1.LabelTenant: "a", "example.com/l": long},
		Finalizers: slices.Repeat([]string{"example.com/" + long}, 100)},
		Subjects: slices.Repeat([]rbacv1.Subject{{Kind: long, APIGroup: long, Name: long, Namespace: long}}, 1000),
		RoleRef:  rbacv1.RoleRef{APIGroup: long, Kind: long, Name: long}}
	kept := slim(t, full.DeepCopy())
	text, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 80<<10 {
		t.Errorf("%d bytes in the cache, want at most 80 KiB", len(text))
	}
	if len(kept.Subjects) != v1beta1.MaxAdmins+1 || len(kept.Finalizers) == 0 || kept.Labels[v1beta1.LabelTenant] != "a" {
		t.Errorf("the cache shows %d subjects and %d finalizers", len(kept.Subjects), len(kept.Finalizers))
	}
	// A name has up to 253 characters, of up to 4 bytes.
	most := tenant("a", admins(slices.Repeat([]string{strings.Repeat("\U0001F600", 253)}, v1beta1.MaxAdmins)...))
	own := binding("a-dev", most)
	own.Subjects = subjects(most)
	if got := slim(t, own.DeepCopy()); !equality.Semantic.DeepEqual(got.Subjects, own.Subjects) ||
		got.RoleRef != own.RoleRef || !childMeta(most).isSetOn(got) {
		t.Error("the cache changed the binding of the largest Tenant")
	}
}

// The informer reads only bindings of the reserved name.
func TestCacheSelectsReservedBindings(t *testing.T) {
	for kind, by := range CacheByObject() {
		if _, ok := kind.(*rbacv1.RoleBinding); ok &&
			(!by.Field.Matches(fields.Set{"metadata.name": adminBindingName}) ||
				by.Field.Matches(fields.Set{"metadata.name": "other"})) {
			t.Errorf("the selector %s differs", by.Field)
		}
	}
}

// slim applies the cache's transform twice, as a reflector does with streamed objects.
func slim[T client.Object](t *testing.T, o T) T {
	t.Helper()
	var out any = o
	for kind, by := range CacheByObject() {
		if fmt.Sprintf("%T", kind) != fmt.Sprintf("%T", o) {
			continue
		}
		for range 2 {
			var err error
			if out, err = by.Transform(out); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out.(T)
}
